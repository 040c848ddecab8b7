"""Results: merged over clients, with notes for readers, fitted to a terminal."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from qanat.app.bench.clients.html_page import as_html
from qanat.app.bench.clients.result import Plot, Result, Sheet, lag_notes, latency_plot, rate_plot, throughput
from qanat.app.bench.clients.worker_messages import Outcome
from qanat.app.bench.clients.worker_pool import Findings
from qanat.app.terminal.plot import line_chart


def findings(*outcomes: Outcome) -> Findings:
    return Findings(list(outcomes), [(0.5, 40), (1.0, 100)])


def test_clients_that_begin_and_end_at_other_times_are_one_run() -> None:
    found = throughput(findings(Outcome(10.0, 12.0, 60, 600, {"lost": 1}), Outcome(11.0, 14.0, 40, 400, {"lost": 2})))

    assert (found["seconds"], found["records"], found["bytes"]) == (4.0, 100, 1000)
    assert (found["records_per_s"], found["mb_per_s"]) == (25.0, 0.00025)
    assert (found["errors"], found["error_reasons"]) == (3, {"lost": 3})


def test_nothing_is_a_result_as_well() -> None:
    found = throughput(Findings())

    assert (found["records"], found["records_per_s"]) == (0, 0.0)
    assert rate_plot("none", {"records/s": []}) == latency_plot("none", {"none": Findings().latencies()}) == []


@pytest.mark.parametrize(("rate", "has_note"), [(0.0, False), (50.0, False), (52.0, False), (100.0, True)])
def test_a_rate_that_was_not_reached_is_noted(rate: float, has_note: bool) -> None:
    assert bool(lag_notes(findings(Outcome(0.0, 2.0, 100, 1000, {})), rate)) is has_note


def test_a_table_that_is_too_wide_lies_on_its_side() -> None:
    sheet = Sheet(("partitions", "created in", "errors"), [("1", "2 ms", "0"), ("100", "20 ms", "3")])

    assert sheet.fitting(30) is sheet, "10 + 10 + 6, and two gaps of 2"
    assert list(sheet.fitting(29).headings) == ["partitions", "1", "100"]
    assert list(sheet.fitting(29).rows) == [("created in", "2 ms", "20 ms"), ("errors", "0", "3")]


def test_the_page_holds_everything_escaped_and_its_plots_are_drawn_inside_their_frame() -> None:
    plot = Plot("rate <of> it", {"a & b": [(0.0, 5.0), (1.0, 123_456.0)], "one": [(0.5, 1.0)]}, "seconds")
    result = Result("produce", {"records": 1}, [Sheet(("<x>", ""), [("p99", "1 ms")])], [plot], complaints=["<bad>"])
    text = as_html(result, {"kernel": "<k>"})
    drawn = ElementTree.fromstring(line_chart(plot.title, plot.lines, plot.ticks, plot.axis))
    points = [
        tuple(map(float, point.split(",")))
        for line in drawn.iter("{http://www.w3.org/2000/svg}polyline")
        for point in line.attrib["points"].split()
    ]
    written = [one.text for one in drawn.iter("{http://www.w3.org/2000/svg}text")]

    assert "<x>" not in text
    assert "&lt;bad&gt;" in text
    assert all(0 <= x <= 900 and 0 <= y <= 320 for x, y in points)
    assert {"rate <of> it", "a & b", "seconds", "125,000"} <= set(written)
