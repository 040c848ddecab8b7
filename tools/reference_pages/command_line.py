"""`docs/reference/cli`: a page for each command of `qanat`, from the same texts as `--help`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

from cyclopts import App

from qanat.app.command_tree import build_app

_ALIASES = {"txn"}
"""Second names of commands that have a page."""


def pages() -> dict[str, str]:
    """The text of each page by its file name."""
    app = build_app()
    names = [name for name in app if not name.startswith("-") and name not in _ALIASES]
    found = {f"{name}.md": "\n".join(_page(app[name], f"qanat {name}")) + "\n" for name in names}
    rows = [f"| [`qanat {name}`]({name}.md) | {_first_line(app[name])} |" for name in names]
    return {"index.md": "\n".join([*_HEAD, *rows]) + "\n"} | found


_HEAD = (
    "# The command line: every command",
    "",
    "What `--help` says, as pages. [The command line](../../operating/command-line.md) explains what commands have in",
    "common: addresses, profiles, output formats. These pages are generated (`python -m tools.reference_pages`).",
    "",
    "| command | does |",
    "| --- | --- |",
)


def _page(app: App, name: str) -> Iterator[str]:
    yield f"# {name}"
    if app.default_command is not None:
        yield from _command(app, name)
        return
    yield f"\n{_first_line(app)}"
    for sub in (sub for sub in app if not sub.startswith("-")):
        yield f"\n## {name} {sub}"
        yield from _command(app[sub], f"{name} {sub}")


def _first_line(app: App) -> str:
    text = inspect.getdoc(app.default_command) if app.default_command is not None else app.help
    return (text or "").strip().splitlines()[0]


def _command(app: App, name: str) -> Iterator[str]:
    text = (inspect.getdoc(app.default_command) or "").partition("\nParameters\n---")[0].rstrip()
    yield f"\n{text}"
    listed = app.generate_docs(output_format="markdown")
    usage = re.search(r"^```console\n\S+(.*)\n```", listed, re.MULTILINE)
    options = listed.partition("\n**")[1] + listed.partition("\n**")[2]
    yield f"\nUsage: `{name}{usage[1] if usage else ''}`\n"
    yield re.sub(r"\n {2,}", " ", options.strip()).replace("*[default: False]*", "").replace(" \n", "\n").rstrip()
