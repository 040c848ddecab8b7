"""`python -m tools.reference_pages`: write the generated pages of docs/reference, or check them."""

from __future__ import annotations

import sys
from pathlib import Path

from qanat.servers.http.admin.openapi import document
from qanat.servers.http.operation_table import DOCUMENTED
from tools.reference_pages import client_api, command_line, http_api

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"


def pages() -> dict[Path, str]:
    """Every generated page."""
    found = {FOLDER / "cli" / name: text for name, text in command_line.pages().items()}
    found[FOLDER / "http-api.md"] = http_api.page(document(DOCUMENTED))
    found[FOLDER / "client-api.md"] = client_api.page()
    return found


def main(arguments: list[str]) -> int:
    current = pages()
    stale = [file for file, text in current.items() if not file.exists() or file.read_text() != text]
    stale += [file for file in (FOLDER / "cli").glob("*.md") if file not in current]
    if "--check" in arguments:
        for file in stale:
            print(f"{file} is out of date: run python -m tools.reference_pages", file=sys.stderr)
        return 1 if stale else 0
    (FOLDER / "cli").mkdir(parents=True, exist_ok=True)
    for file in stale:
        if file in current:
            file.write_text(current[file])
        else:
            file.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
