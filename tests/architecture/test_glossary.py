"""Modules and public names use the glossary's words, and none of its "not this" column."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "internals" / "glossary.md"
FOLDERS = ("src/qanat", "verify", "bench", "tools", "demo")
# One module per API of the protocol, generated: its names are the protocol's.
GENERATED = ROOT / "src" / "qanat" / "wire" / "kafka" / "messages"

# Names that are still to be renamed, by file. It only gets shorter.
ALLOWED: frozenset[tuple[str, str]] = frozenset(
    {
        ("bench/failover/rows.py", "of_kills_beside"),
        ("bench/holds/cases.py", "PATIENCE_MS"),
        ("bench/holds/cases.py", "strangers"),
        ("bench/report/parts.py", "is_told_minutes"),
        ("bench/report/sections.py", "behind_anybody"),
        ("bench/share_client.py", "is_told"),
        ("src/qanat/adapters/os_file.py", "adopt"),
        ("src/qanat/api/caller.py", "is_let_go"),
        ("src/qanat/api/share/alter_share_group_offsets.py", "told"),
        ("src/qanat/api/share/state_rows.py", "Told"),
        ("src/qanat/app/bench/broker/result.py", "told_load"),
        ("src/qanat/app/bench/broker/tasks.py", "Told"),
        ("src/qanat/app/bench/broker/tasks.py", "patience_s"),
        ("src/qanat/app/cluster/faults.py", "offsets_told"),
        ("src/qanat/app/cluster/faults.py", "told"),
        ("src/qanat/app/pipelines/live.py", "Told"),
        ("src/qanat/app/terminal/progress.py", "told_bytes"),
        ("src/qanat/app/terminal/progress.py", "told_count"),
        ("src/qanat/app/terminal/progress.py", "told_status"),
        ("src/qanat/broker/coordinators/internal_topic.py", "Hosted"),
        ("src/qanat/broker/coordinators/internal_topic.py", "LOAD_PATIENCE_S"),
        ("src/qanat/broker/coordinators/takeover.py", "let_go"),
        ("src/qanat/broker/replicas/fetch.py", "told_high"),
        ("src/qanat/broker/replicas/fetch_sessions.py", "Told"),
        ("src/qanat/broker/replicas/fetch_sessions.py", "is_worth_telling"),
        ("src/qanat/broker/replicas/fetch_sessions.py", "told"),
        ("src/qanat/broker/replicas/follower_fetching.py", "NOBODY"),
        ("src/qanat/broker/replicas/partition.py", "adopt"),
        ("src/qanat/broker/settings/topic_settings.py", "is_obeyed"),
        ("src/qanat/cluster/failure_detector.py", "SUSPICION_MS"),
        ("src/qanat/cluster/keys.py", "SUSPICIONS"),
        ("src/qanat/cluster/keys.py", "suspicion"),
        ("src/qanat/cluster/waits.py", "copies_told"),
        ("src/qanat/cluster/waits.py", "ranges_told"),
        ("src/qanat/connection/cluster.py", "told"),
        ("src/qanat/connection/tls.py", "told"),
        ("src/qanat/groups/classic/group.py", "has_everybody_joined"),
        ("src/qanat/groups/share/runs.py", "NOBODY"),
        ("src/qanat/log/directories/directory.py", "let_go"),
        ("src/qanat/log/directories/directory.py", "let_go_offline"),
        ("src/qanat/log/runtime/log_runtime.py", "adopt"),
        ("src/qanat/log/runtime/segment_leases.py", "lent"),
        ("src/qanat/log/runtime/waiting_appends.py", "adopt"),
        ("src/qanat/log/segments/file_names.py", "BESIDE_LOG"),
        ("src/qanat/log/segments/index_tables.py", "adopt"),
        ("src/qanat/log/segments/index_tables.py", "retreat"),
        ("src/qanat/security/conversation.py", "STRANGER"),
        ("src/qanat/servers/http/exchange.py", "refuse_foreign"),
        ("src/qanat/servers/http/records/produce_results.py", "told_many"),
        ("src/qanat/servers/http/records/produce_results.py", "told_one"),
        ("src/qanat/servers/http/records/record_json.py", "told"),
        ("src/qanat/servers/kafka/connection.py", "let_go"),
        ("src/qanat/spark/copying/inventory.py", "patiently"),
        ("src/qanat/spark/error_messages.py", "told_plainly"),
        ("src/qanat/spark/pipelines/frames.py", "told"),
        ("src/qanat/spark/pipelines/spark_retries.py", "patiently"),
        ("src/qanat/spark/reads/stream_reader.py", "ForeignCheckpointError"),
        ("src/qanat/spark/sink/batch_sender.py", "PATIENCE_S"),
        ("src/qanat/testing/simulation/loop.py", "NOBODY"),
        ("src/qanat/wire/frames.py", "let_go"),
        ("src/qanat/wire/kafka/lone_fetch.py", "lone_fetch"),
        ("src/qanat/wire/kafka/lone_produce.py", "lone_produce"),
        ("tools/brokers.py", "PATIENCE_S"),
        ("tools/check_site.py", "foreign_requests"),
        ("verify/clusters/bug_bank/election_bugs.py", "elect_whoever_is_there"),
        ("verify/clusters/bug_bank/replication_bugs.py", "join_by_asking"),
        ("verify/connector/asking.py", "asking"),
        ("verify/exactly_once/copier.py", "PATIENCE_S"),
        ("verify/logs/log_rig.py", "adopt"),
    }
)


@cache
def words_to_use() -> dict[str, str]:
    """What to say instead, by each entry of the column "not this"."""
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]*) ?\|$", PAGE.read_text(), re.MULTILINE)
    return {
        avoided.strip(): word
        for word, column in rows
        if word not in ("word", "---")
        for avoided in column.split(",")
        if avoided.strip()
    }


def words_of(name: str) -> str:
    """`told_count`, `ToldCount` and `TOLD_COUNT` as " told count "."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return f" {' '.join(part.lower() for part in parts)} "


def declared_in(body: list[ast.stmt]) -> Iterator[str]:
    """Names of classes, functions, constants and attributes in class bodies; not what functions have inside."""
    for statement in body:
        match statement:
            case ast.ClassDef():
                yield statement.name
                yield from declared_in(statement.body)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield statement.name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign():
                for target in statement.targets:
                    yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))
            case ast.If() | ast.Try():
                yield from declared_in([*statement.body, *statement.orelse])


def public_names(root: Path) -> Iterator[tuple[str, str]]:
    """Every file with each of its public names, the module's own among them."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            if GENERATED in path.parents:
                continue
            module = path.parent.name if path.stem == "__init__" else path.stem
            for name in sorted({module, *declared_in(ast.parse(path.read_text()).body)}):
                if not name.startswith("_"):
                    yield str(path.relative_to(root)), name


@cache
def avoided_names(root: Path) -> dict[tuple[str, str], str]:
    """Names that use an avoided word, each with what to say instead."""
    avoided = re.compile(rf" ({'|'.join(words_to_use())}) ")
    return {
        (file, name): f"{file}: {name}: say {words_to_use()[found[1]]}, not {found[1]}"
        for file, name in public_names(root)
        if (found := avoided.search(words_of(name)))
    }


def test_the_glossary_says_what_to_use_instead() -> None:
    assert words_to_use()["lone"] == "fast path"
    assert words_to_use()["let go"] == "release"


def test_the_glossary_uses_none_of_the_words_that_it_avoids() -> None:
    words = re.findall(r"^\| ([^|]+) \| ", PAGE.read_text(), re.MULTILINE)

    assert [word for word in words for avoided in words_to_use() if f" {avoided} " in words_of(word)] == []


def test_names_use_the_words_of_the_glossary() -> None:
    found = avoided_names(ROOT)

    assert [sentence for name, sentence in found.items() if name not in ALLOWED] == []


def test_names_that_were_renamed_are_no_longer_allowed() -> None:
    assert sorted(ALLOWED - set(avoided_names(ROOT))) == []


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("def told_count(): ...", "told_count"),
        ("class LoneFetch: ...", "LoneFetch"),
        ("class Fetch:\n    def let_go(self): ...", "let_go"),
        ("class Fetch:\n    is_told: bool = False", "is_told"),
        ("NOBODY = 0", "NOBODY"),
        ("try:\n    import x\nexcept ImportError:\n    pass\nelse:\n    door: int = 1", "door"),
    ],
)
def test_a_name_that_uses_an_avoided_word_is_found(tmp_path: Path, source: str, name: str) -> None:
    (tmp_path / "verify").mkdir()
    (tmp_path / "verify" / "run.py").write_text(source)

    assert list(avoided_names(tmp_path)) == [("verify/run.py", name)]


@pytest.mark.parametrize("source", ["def count_untold(): ...", "def _told(): ...", "def tell():\n    told = 1"])
def test_a_name_that_uses_none_is_not(tmp_path: Path, source: str) -> None:
    (tmp_path / "verify").mkdir()
    (tmp_path / "verify" / "run.py").write_text(source)

    assert avoided_names(tmp_path) == {}


def test_a_module_that_uses_an_avoided_word_is_found(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "lone_fetch.py").write_text("")

    assert list(avoided_names(tmp_path).values()) == ["bench/lone_fetch.py: lone_fetch: say fast path, not lone"]
