"""`pip` as the scripts of pages call it: nothing is downloaded, but extras that do not exist are refused."""

from __future__ import annotations

import re
import sys
import tomllib

from tests.documents.blocks import ROOT


def main(arguments: list[str]) -> int:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {name for word in arguments for one in re.findall(r"qanat\[([\w,-]+)\]", word) for name in one.split(",")}
    for name in sorted(named - set(extras)):
        sys.stdout.write(f"there is no extra {name}\n")
    return 1 if named - set(extras) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
