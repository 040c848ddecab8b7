"""The lag of groups over HTTP: listed, sorted, paged, and over time."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from tests.servers.http.serving import ServedNode, node_settings, served

from qanat.servers.http.paging import WindowQuery, window_of
from qanat.servers.http.problems import Problem


@pytest.fixture(scope="module")
def node() -> Iterator[ServedNode]:
    """A topic with ten records, and groups that have read 2, 5, 5 and 9 of them; nobody has asked for lag before."""
    with served(node_settings()) as running:
        assert running.post("/api/v1/topics", {"name": "jobs", "partitions": 1}).status == 201
        running.post("/api/v1/topics/jobs/records", [{"value": number} for number in range(10)])
        for group, offset in (("far", 2), ("middle-a", 5), ("middle-b", 5), ("near", 9)):
            offsets = {"offsets": [{"topic": "jobs", "partition": 0, "offset": offset}]}
            assert running.post(f"/api/v1/groups/{group}/offsets", offsets).status == 200
        yield running


def listed(node: ServedNode, query: str) -> list[tuple[str, int | None]]:
    return [(row["group"], row["lag"]) for row in node.get(f"/api/v1/groups?{query}").json["groups"]]


def test_groups_are_sorted_by_lag_the_largest_first(node: ServedNode) -> None:
    assert listed(node, "sort=lag") == [("far", 8), ("middle-a", 5), ("middle-b", 5), ("near", 1)]
    assert len(listed(node, "sort=time_lag_s")) == 4


def test_pages_by_lag_have_every_group_once(node: ServedNode) -> None:
    found, token = [], ""
    while True:
        page = node.get(f"/api/v1/groups?sort=lag&limit=1{token}").json
        found += [row["group"] for row in page["groups"]]
        if page["next_page_token"] is None:
            break
        token = f"&page_token={quote(page['next_page_token'])}"

    assert found == ["far", "middle-a", "middle-b", "near"]


def test_lag_is_shown_only_where_it_is_asked_for(node: ServedNode) -> None:
    assert listed(node, "limit=2") == [("far", None), ("middle-a", None)]
    assert listed(node, "limit=2&lag=true") == [("far", 8), ("middle-a", 5)]


def test_groups_are_found_by_a_part_of_their_name(node: ServedNode) -> None:
    assert [group for group, _ in listed(node, "search=MIDDLE")] == ["middle-a", "middle-b"]
    assert listed(node, "search=nobody") == []


def test_the_lag_of_one_group_has_partitions_and_history(node: ServedNode) -> None:
    lag = node.get("/api/v1/groups/far/lag").json

    assert (lag["group"], lag["type"], lag["state"], lag["lag"]) == ("far", "classic", "ok", 8)
    assert [(row["committed_offset"], row["latest_offset"], row["lag"]) for row in lag["partitions"]] == [(2, 10, 8)]
    assert lag["history"][-1]["lag"] == 8
    assert lag["history"][-1]["at_ms"] <= lag["collected_ms"]


def test_a_group_without_commits_has_no_lag(node: ServedNode) -> None:
    answer = node.get("/api/v1/groups/nobody/lag")

    assert answer.status == 404
    assert "group.lag.interval.ms" in answer.json["detail"]


def test_a_token_of_another_order_is_refused(node: ServedNode) -> None:
    answer = node.get("/api/v1/groups?sort=lag&page_token=far")

    assert (answer.status, answer.json["parameter"]) == (400, "page_token")


def test_pages_come_to_an_end_while_numbers_change() -> None:
    numbers = {f"row-{number:02}": number % 7 for number in range(30)}

    def page(token: str | None) -> tuple[list[str], str | None]:
        shown, token, _ = window_of(
            list(numbers), lambda row: numbers[row], str, WindowQuery(limit=4, page_token=token)
        )
        return shown, token

    shown, token = page(None)
    seen, pages = set(shown), 1
    while token is not None:
        numbers |= {name: (number + 1) % 7 for name, number in numbers.items() if name not in seen}
        shown, token = page(token)
        seen |= set(shown)
        pages += 1

    assert pages <= 8
    with pytest.raises(Problem):
        page("[1]")
