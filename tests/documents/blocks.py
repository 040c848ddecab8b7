"""Blocks of code on pages: which of them are commands, and what they print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "docs" / "reference" / "cli"
"""Usage and examples of `--help`, which other tests check."""
PAGES = [
    page
    for page in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *(ROOT / "examples").glob("*.md"))
    if GENERATED not in page.parents
]
_BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE)
_PROGRAMS = (
    r"(?:make|qanat|\.venv/|curl|pip|pipx|python3?|kill|etcdctl|docker|podman|helm|kubectl|systemctl|echo|date|git|\$)"
)
_COMMANDS = re.compile(rf"{_PROGRAMS}\b|\$ ")


@dataclass(slots=True)
class Block:
    """Commands of a page, and the lines of the block behind them that has no language: what they print."""

    page: str
    language: str
    text: str
    printed: list[str] = field(default_factory=list)

    @property
    def is_shell(self) -> bool:
        return self.language in ("sh", "bash") or (not self.language and _COMMANDS.match(self.text) is not None)

    @property
    def is_python(self) -> bool:
        return self.language == "python"


def blocks_of(page: Path) -> Iterator[Block]:
    """Every block of commands or Python of a page."""
    last: Block | None = None
    end = 0
    text = page.read_text()
    for match in _BLOCK.finditer(text):
        block = Block(str(page.relative_to(ROOT)), match["language"], match["text"])
        if block.is_shell or block.is_python:
            if last is not None:
                yield last
            last = block
        elif last is not None and last.is_shell and not match["language"] and not text[end : match.start()].strip():
            last.printed += match["text"].splitlines()
        end = match.end()
    if last is not None:
        yield last
