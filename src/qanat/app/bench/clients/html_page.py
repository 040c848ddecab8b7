"""The result as a self-contained HTML page: tables, plots as SVG, settings, machine, the JSON itself."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from qanat.app.bench.clients.result import Plot, Result, Sheet, as_json
from qanat.app.terminal.plot import line_chart

_STYLE = """
body { font-family: sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #111827; }
table { border-collapse: collapse; margin: 1em 0; }
th, td { padding: .25em .9em .25em 0; text-align: right; border-bottom: 1px solid #e5e7eb; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.wide td { white-space: normal; text-align: left; overflow-wrap: anywhere; }
.complaint { color: #b91c1c; }
pre { overflow-x: auto; background: #f9fafb; padding: 1em; }
svg { width: 100%; height: auto; }
"""


def as_html(result: Result, about: Mapping[str, str]) -> str:
    title = f"qanat bench {result.bench}"
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        *(f'<p class="complaint">{escape(sentence)}</p>' for sentence in result.complaints),
        *(["<p>Interrupted: these are the results so far.</p>"] if result.was_interrupted else []),
        *(_table(sheet) for sheet in result.sheets),
        *(f"<p>{escape(note)}</p>" for note in result.notes),
        *(_chart(plot) for plot in result.plots),
        "<h2>Settings</h2>",
        _pairs(result.settings),
        "<h2>Machine of the clients</h2>",
        _pairs(about),
        f"<details><summary>As JSON</summary><pre>{escape(as_json(result, about))}</pre></details>",
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _table(sheet: Sheet) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in sheet.headings)
    rows = ("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in sheet.rows)
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _pairs(pairs: Mapping[str, str]) -> str:
    rows = (f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in pairs.items())
    return f'<table class="wide">{"".join(rows)}</table>'


def _chart(plot: Plot) -> str:
    return line_chart(plot.title, plot.lines, plot.ticks, plot.axis)
