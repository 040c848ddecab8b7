"""What a consumer application stores of what arrives: new records, each once, and what voids others."""

from __future__ import annotations

from random import Random

import pytest

from qanat.edge.kept_records import Append, Extent, Place, Restart, Step, Truncate, plan, removed


def places(*offsets: int, epoch: int = 0) -> list[Place]:
    return [Place(offset, epoch) for offset in offsets]


def held(start: int, end: int, *epochs: tuple[int, int]) -> Extent:
    return Extent(start, end, epochs or ((0, start),))


@pytest.mark.parametrize(
    ("extent", "arrived", "steps"),
    [
        (Extent(0, 0), places(0, 1, 2), [Append(0, 3)]),
        (Extent(0, 0), places(7, 8), [Restart(7), Append(0, 2)]),
        (held(0, 3), places(3, 4), [Append(0, 2)]),
        (held(0, 3), places(5, 9), [Append(0, 2)]),
        (held(0, 3), places(0, 1, 2), []),
        (held(0, 3), places(1, 2, 3, 4), [Append(2, 4)]),
        (held(0, 3), places(3, 3, 3), [Append(0, 1)]),
        (held(0, 3), places(1, epoch=1), [Truncate(1), Append(0, 1)]),
        (held(0, 9, (0, 0), (2, 4)), places(5, epoch=1), []),
        (held(0, 9, (0, 0), (2, 4)), places(3, epoch=1), [Truncate(3), Append(0, 1)]),
        (held(5, 9), places(2, 3), [Restart(2), Append(0, 2)]),
        (held(0, 3), places(1, epoch=-1), []),
        (held(0, 3), places(1, epoch=4) + places(2, epoch=4), [Truncate(1), Append(0, 2)]),
        (held(0, 3), [*places(3), *places(0, epoch=2)], [Append(0, 1), Truncate(0), Append(1, 2)]),
    ],
)
def test_the_steps_for_what_arrives(extent: Extent, arrived: list[Place], steps: list[Step]) -> None:
    assert plan(extent, arrived) == steps


@pytest.mark.parametrize("seed", range(200))
def test_a_copy_holds_what_the_log_has_however_often_it_is_delivered(seed: int) -> None:
    """The broker's log grows and is truncated by later epochs; deliveries repeat from anywhere."""
    random = Random(seed)
    log: list[Place] = []
    copy: list[Place] = []
    extent = Extent(0, 0)
    epoch = 0
    for _ in range(30):
        if random.random() < 0.3:
            epoch += 1
            del log[random.randint(0, len(log)) :]
        first = log[-1].offset + 1 if log else 0
        gaps = random.choice([1, 1, 1, 2])
        log += [Place(first + number * gaps, epoch) for number in range(random.randint(1, 5))]
        # A consumer continues where its copy still agrees with the log, or before.
        agreed = next((n for n, (ours, theirs) in enumerate(zip(copy, log, strict=False)) if ours != theirs), len(copy))
        begin = random.randint(0, min(agreed, len(log)))
        delivered = log[begin : random.randint(begin, len(log))]
        for step in plan(extent, delivered):
            if isinstance(step, Append):
                new = delivered[step.first : step.end]
                copy += new
                for place in new:
                    epochs = extent.epochs
                    if not epochs or place.epoch > epochs[-1][0]:
                        epochs = (*epochs, (place.epoch, place.offset))
                    extent = Extent(copy[0].offset, place.offset + 1, epochs)
            else:
                copy = [] if isinstance(step, Restart) else [one for one in copy if one.offset < step.offset]
                extent = removed(extent, step)
        assert len({one.offset for one in copy}) == len(copy), f"seed {seed}: stored twice"
        assert set(delivered) <= set(copy), f"seed {seed}: what was delivered is held"
        assert copy == sorted(copy), f"seed {seed}: in order"
