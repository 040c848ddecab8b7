"""Check of a built documentation site: no page may load anything from another machine.

    python tools/check_site.py FOLDER

Links that a reader may click are allowed; scripts, styles, fonts and images that a browser loads by itself are not,
because the site must work offline.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

_LOADED = (
    re.compile(
        r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc\s*=\s*[\"']?((?:https?:)?//[^\"'\s>]+)", re.IGNORECASE
    ),
    re.compile(r"<link\b(?![^>]*rel=[\"']?canonical)[^>]*\bhref\s*=\s*[\"']?((?:https?:)?//[^\"'\s>]+)", re.IGNORECASE),
    re.compile(r"(?:@import\s+|url\()\s*[\"']?((?:https?:)?//[^\"')\s]+)", re.IGNORECASE),
)


def outside_requests(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every address outside the site that a browser would load, with the page that names it."""
    for page in sorted([*folder.rglob("*.html"), *folder.rglob("*.css")]):
        text = page.read_text(encoding="utf-8", errors="replace")
        for pattern in _LOADED:
            for match in pattern.finditer(text):
                yield page, match.group(1)


def main() -> int:
    """Print outside requests; exit code 1 if there are any."""
    found = list(outside_requests(Path(sys.argv[1])))
    for page, address in found:
        print(f"{page}: loads {address}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
