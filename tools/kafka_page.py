"""The generated tables of docs/protocols/kafka.md.

    python -m tools.kafka_page                    the table of APIs, from what the broker serves
    python -m tools.kafka_page RESULTS.json       the table of clients as well, from a run of tests/clients

Each table stands between two comments, `<!-- name -->` and `<!-- end of name -->`; the rest of the page is written by
hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from qanat.api.api_table import SERVED, ServedApi

PAGE = Path(__file__).resolve().parents[1] / "docs" / "protocols" / "kafka.md"
CAPABILITIES: Mapping[str, str] = {
    "create": "create a topic",
    "describe": "describe a topic",
    "acks": "acks 0, 1, all",
    "compression": "compression",
    "assignment": "consume by assignment",
    "group": "consume by group",
    "resume": "commit and resume",
    "rebalance": "rebalance",
    "timestamp": "look up by timestamp",
    "delete": "delete a topic",
    "transactions": "transactions",
}
"""What every client is tried for: the key in the results, and the heading of its column."""


def api_table() -> str:
    """The table of served APIs, by key."""
    rows = [
        (str(int(served.key)), served.api.name, _range(served.first_version, served.last_version), _note(served))
        for served in sorted(SERVED.values(), key=lambda served: served.key)
    ]
    return _table(("key", "API", "versions", "note"), rows)


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"


def _note(served: ServedApi) -> str:
    if served.advertised_first == served.first_version:
        return ""
    return f"advertised from {served.advertised_first} on, for the sake of old librdkafka; older requests are refused"


def client_table(results: Mapping[str, Mapping[str, str]], capabilities: Mapping[str, str] = CAPABILITIES) -> str:
    """One row per client; the row of a client that could not be tried says why."""
    head = ("client", "version", *capabilities.values())
    return _table(head, [_client_row(name, found, capabilities) for name, found in results.items()])


def _client_row(name: str, found: Mapping[str, str], capabilities: Mapping[str, str]) -> Sequence[str]:
    if "unavailable" in found:
        return (name, f"not tried: {found['unavailable']}", *("" for _ in capabilities))
    cells = [found.get(capability, "not tried") for capability in capabilities]
    shown = dict(zip(capabilities, cells, strict=True))
    if shown.get("compression") == "yes":
        shown["compression"] = found["codecs"]
    return (name, found["version"], *shown.values())


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def replaced(page: str, name: str, table: str) -> str:
    """The page with a new table of that name."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    assert found, f"the page has no place for {name}"
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


def main(arguments: Sequence[str]) -> int:
    page = replaced(PAGE.read_text(), "apis", api_table())
    if arguments:
        page = replaced(page, "clients", client_table(json.loads(Path(arguments[0]).read_text())))
    PAGE.write_text(page)
    print(f"written: {PAGE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
