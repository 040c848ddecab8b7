"""How much a pipe asks for, and in which order."""

from __future__ import annotations

from qanat.edge.pace import LEAST_BYTES, MOST_BYTES, SHARE, Pace, in_order


def test_an_answer_takes_a_quarter_of_a_second_of_the_measured_speed() -> None:
    pace = Pace()
    for now in range(20):
        pace.answered(100_000, 30, 1000, now)
    assert pace.answer_bytes() == 25_000


def test_the_next_request_leaves_twice_the_shortest_turnaround_before_the_end_of_an_answer() -> None:
    pace = Pace()
    assert pace.ahead_bytes() == 0  # Nothing is known yet.
    for now, waited_ms in enumerate((70, 40, 5_000)):  # The last one was parked.
        pace.answered(1_000_000, waited_ms, 250, now)
    assert pace.ahead_bytes() == 4_000 * (2 * 40 + 60)


def test_answers_that_overlap_show_the_speed_of_the_link_together() -> None:
    pace = Pace()
    for now in range(20):  # Each shares the link with the end of the one before and the beginning of the next.
        pace.answered(1_000_000, 40, 500, now, alongside=1_000_000)
    assert pace.answer_bytes() == 1_000_000


def test_a_pipe_with_a_limit_never_asks_ahead() -> None:
    pace = Pace(limit_bytes_per_s=100_000)
    pace.answered(100_000, 10, 1000, 0)
    assert pace.ahead_bytes() == 0


def test_answers_grow_from_a_small_first_one() -> None:
    pace, sizes = Pace(), []
    for now in range(6):
        sizes.append(pace.answer_bytes())
        pace.answered(sizes[-1], 0, 0, now)
    assert sizes == [LEAST_BYTES * 4**step for step in range(5)] + [MOST_BYTES]


def test_a_slow_link_is_asked_for_little_and_never_for_nothing() -> None:
    pace = Pace()
    pace.answered(16_384, 600, 2_600, 0)  # 50 kbit/s
    assert pace.answer_bytes() == LEAST_BYTES


def test_small_answers_say_nothing_about_the_speed() -> None:
    pace = Pace()
    for now in range(6):
        pace.answered(MOST_BYTES, 1, 10, now)
    pace.answered(500, 1, 400, 7)
    assert pace.answer_bytes() == MOST_BYTES


def test_how_long_bytes_take_is_known_once_the_link_is() -> None:
    pace = Pace()
    assert pace.expected_ms(100_000) == 0
    pace.answered(16_384, 600, 2_600, 0)  # 50 kbit/s
    assert 15_000 < pace.expected_ms(100_000) < 17_000


def test_a_limit_holds_over_time() -> None:
    pace, now, size = Pace(limit_bytes_per_s=100_000), 0, 0
    while now < 60_000:
        now += pace.wait_ms(now)
        wanted = pace.answer_bytes()
        size += wanted
        now += 1
        pace.answered(wanted, 1, 1, now)
    assert 5_500_000 <= size <= 6_300_000


def test_higher_classes_come_first_and_lower_ones_do_not_starve() -> None:
    classes = [["a", "b"], ["c"], ["d", "e"]]
    first = [in_order(classes, number)[0] for number in range(SHARE * 4)]

    assert first.count("a") + first.count("b") == SHARE * 4 - 4
    assert set(first) == {"a", "b", "c", "d", "e"}
    assert all(sorted(in_order(classes, number)) == ["a", "b", "c", "d", "e"] for number in range(20))
