"""One worker process of `qanat run`: `python -m qanat.app.apps.worker module:app`.

Exit codes: 0 stopped, 1 a handler gave up or no broker answers, 3 the app cannot be loaded.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from qanat.app.apps.app_lookup import load_app
from qanat.app.node.event_log import LogFormat, configure
from qanat.app.terminal.standard_streams import print_error
from qanat.model.errors import QanatError
from qanat.telemetry.events import LogLevel, failure

EXIT_FAILED, EXIT_UNLOADABLE = 1, 3


def work(name: str, log_format: LogFormat, log_level: LogLevel) -> int:
    """Load an app and run it until a signal; returns the exit code."""
    configure(log_format, log_level)
    try:
        app = load_app(name)
    except QanatError as fault:
        print_error(str(fault))
        return EXIT_UNLOADABLE
    try:
        asyncio.run(app.serve(has_signals=True))
    except QanatError as fault:
        print_error(str(fault))
        return EXIT_FAILED
    except Exception as fault:  # noqa: BLE001 - the end of the process: a bug in a hook, or here
        failure("the app has ended by a bug", fault)
        return EXIT_FAILED
    return 0


def main(arguments: Sequence[str]) -> int:
    name, log_format, log_level = arguments
    return work(name, log_format, log_level)  # type: ignore[arg-type]  # Checked by `qanat run`.


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
