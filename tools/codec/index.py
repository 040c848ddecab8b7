"""The tables around the generated modules: which APIs and which kinds of records there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tools.codec.module import HEADER
from tools.codec.schema import Api, snake


def api_table(keys: dict[int, str], apis: Sequence[Api]) -> str:
    """Every key of the protocol, and a row for each API that has a module."""
    lines = [
        HEADER,
        '"""Every API key of the protocol, and what is known of the APIs that have a module here."""',
        "",
        "from __future__ import annotations",
        "",
        "from enum import IntEnum",
        "",
        "",
        "class ApiKey(IntEnum):",
        '    """The number in front of every request, by the name of its API."""',
        "",
        *(f"    {name.upper()} = {key}" for key, name in keys.items()),
        "",
        "",
        "# key: (name, module, first and last version, first flexible version of request and response or None)",
        "ROWS: dict[ApiKey, tuple[str, str, int, int, int | None, int | None]] = {",
        *(_row(api) for api in apis),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _row(api: Api) -> str:
    assert (api.request.first, api.request.last) == (api.response.first, api.response.last)
    flexible = f"{api.request.flexible_from}, {api.response.flexible_from}"
    versions = f"{api.request.first}, {api.request.last}"
    return f'    ApiKey.{api.module.upper()}: ("{api.name}", "{api.module}", {versions}, {flexible}),'


def record_table(modules: dict[str, dict[str, Any]]) -> str:
    """Which kind of record has which key and value, topic by topic."""
    lines = [
        HEADER,
        '"""The kinds of records in internal topics: the number in front of a key, and the names of both parts."""',
        "",
        "from __future__ import annotations",
    ]
    for name, module in modules.items():
        lines += ["", f"{name.upper()}: dict[int, tuple[str, str, int]] = {{"]
        last = {record["name"]: int(record.get("versions", "0").split("-")[-1]) for record in module["records"]}
        for record in module["records"]:
            if "kind" in record:
                value = record["name"].removesuffix("Key") + "Value"
                lines.append(f'    {record["kind"]}: ("{snake(record["name"])}", "{snake(value)}", {last[value]}),')
        lines.append("}")
    return "\n".join(lines) + "\n"


def package_text() -> str:
    return f'''{HEADER}
"""One module per API: a class per message over all its versions, readers and writers.

Each module has `read_request`, `write_request`, `read_response` and
`write_response`; the modules of internal records have a pair for each record.
Importing one module imports no other.
"""
'''
