"""`qanat version`: what is installed here, and whether its per-record core is compiled."""

from __future__ import annotations

import platform
import sys

from qanat import __version__
from qanat.app.doctor.machine_checks import native_modules
from qanat.app.terminal.listing import Output, Row, print_rows

_COLUMNS = ("name", "value")


def version(*, output: Output = "table") -> int:
    """Show the version, what of the per-record core is compiled, Python and the platform.

        qanat version
        qanat version -o json

    Parameters
    ----------
    output:
        `table` for people, the others for programs.
    """
    rows: list[Row] = [{"name": name, "value": value} for name, value in facts().items()]
    print_rows(rows, _COLUMNS, output)
    return 0


def facts() -> dict[str, str]:
    """What there is to say, in the order in which it is shown."""
    compiled, interpreted = native_modules()
    core = f"compiled: {len(compiled)} of {len(compiled)} modules"
    if interpreted:
        core = f"{len(interpreted)} of {len(compiled) + len(interpreted)} modules are interpreted, which is slower"
    return {
        "qanat": __version__,
        "core": core,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{sys.platform} {platform.machine()}, {' '.join(platform.libc_ver()) or 'another C library'}",
    }
