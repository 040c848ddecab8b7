"""The results of mutation runs, in a folder. Each verdict is written at once, so that an interrupted run resumes.

What it holds is true for one state of the tree, which `digest` names; a run on another state starts afresh.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from verify.mutants.core import ROOT, Key
from verify.mutants.workshop import Judgement, Outcome

_DIGESTED = ("src", "tests", "tools", "verify", "bench", "demo", "pyproject.toml")
_SUFFIXES = {".py", ".toml", ".json", ".txt", ".yaml"}


class Results:
    """Verdicts in a file of one JSON line each, and what the tests execute."""

    def __init__(self, folder: Path, digest: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._digest = digest
        self._path = folder / "verdicts.jsonl"
        self._lock = threading.Lock()
        self.before = _read(self._path)
        """The last verdict of each mutant, whatever the tree was."""
        self.known = {key: judgement for key, (of, judgement) in self.before.items() if of == digest}

    def add(self, key: Key, judgement: Judgement) -> None:
        line = [self._digest, key, judgement.outcome.value, judgement.test]
        with self._lock, self._path.open("a") as file:
            # A line of its own, whatever a run that was killed has left before it.
            print("", json.dumps(line), sep="\n", file=file)

    def survivors_before(self) -> set[Key]:
        return {key for key, (_, judgement) in self.before.items() if judgement.outcome is Outcome.SURVIVED}

    def facts_file(self, tests: Iterable[str]) -> Path:
        """Where the lines and times of these tests are kept."""
        return self._folder / f"tests-{_hash([self._digest, *tests])}.json"


def digest() -> str:
    """A name for the state of the tree, without what decides no outcome: documents and accepted survivors."""
    parts = []
    for name in _DIGESTED:
        top = ROOT / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.suffix in _SUFFIXES and path.name != "accepted.yaml" and path.is_file():
                parts += [str(path.relative_to(ROOT)), hashlib.sha256(path.read_bytes()).hexdigest()]
    return _hash(parts)


def _hash(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _read(path: Path) -> dict[Key, tuple[str, Judgement]]:
    found: dict[Key, tuple[str, Judgement]] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            entry: Any = json.loads(line)
        except ValueError:  # Empty, or the last line of a run that was killed.
            continue
        of, (module, function, was, becomes, number), outcome, test = entry
        found[module, function, was, becomes, number] = of, Judgement(Outcome(outcome), test)
    return found
