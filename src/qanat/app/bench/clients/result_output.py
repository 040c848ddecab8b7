"""The result of a bench run, printed as tables or JSON and written as a page; the exit code."""

from __future__ import annotations

from qanat.app.bench import machine
from qanat.app.bench.clients.options import Report
from qanat.app.bench.clients.result import Result, as_json
from qanat.app.terminal.standard_streams import print_error

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
_PIPED_WIDTH = 240


def show(result: Result, report: Report) -> int:
    """Print the result, write the page, print errors; returns the exit code."""
    about = machine.describe_client()
    if report.is_json:
        print(as_json(result, about))
    else:
        _print_tables(result)
    if report.html is not None:
        from qanat.app.bench.clients.html_page import as_html

        report.html.write_text(as_html(result, about), encoding="utf-8")
    for sentence in result.complaints:
        print_error(sentence)
    if result.was_interrupted:
        print_error("interrupted: these are the results so far")
        return EXIT_INTERRUPTED
    return EXIT_FAILED if result.complaints else 0


def _print_tables(result: Result) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console = Console(width=_PIPED_WIDTH)
    for sheet in (sheet.fitting(console.width) for sheet in result.sheets):
        table = Table(box=None, pad_edge=False, header_style="bold")
        for number, heading in enumerate(sheet.headings):
            table.add_column(heading, justify="right" if number else "left", no_wrap=True)
        for row in sheet.rows:
            table.add_row(*map(Text, row))
        console.print(table)
    for note in result.notes:
        console.print(Text(f"Note: {note}"))
