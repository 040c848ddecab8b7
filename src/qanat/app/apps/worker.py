"""One worker process of `qanat run`: `python -m qanat.app.apps.worker module:app LOG_FORMAT LOG_LEVEL [GRACE_PIPE]`.

It writes the seconds of its app's grace to the pipe of that number, for its supervisor.

Exit codes: 0 stopped, 1 a handler gave up or no broker answers, 3 the app cannot be loaded.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from qanat.app.apps.app_lookup import load_app
from qanat.app.apps.process_end import end_despite_threads
from qanat.app.node.event_log import LogFormat, configure
from qanat.app.terminal.standard_streams import print_error
from qanat.client.app.app import App
from qanat.client.app.daemon_threads import run_without_waiting
from qanat.model.errors import QanatError
from qanat.telemetry.events import LogLevel, failure

EXIT_FAILED, EXIT_UNLOADABLE = 1, 3


def work(name: str, log_format: LogFormat, log_level: LogLevel, grace_pipe: int | None = None) -> int:
    """Load an app and run it until a signal; returns the exit code, or ends the process with it."""
    configure(log_format, log_level)
    try:
        app = load_app(name)
    except QanatError as fault:
        print_error(str(fault))
        return EXIT_UNLOADABLE
    if grace_pipe is not None:
        with open(grace_pipe, "w") as pipe:
            pipe.write(f"{app.grace_s}\n")
    return end_despite_threads(_served(app))


def _served(app: App) -> int:
    try:
        run_without_waiting(app.serve(has_signals=True))
    except QanatError as fault:
        print_error(str(fault))
        return EXIT_FAILED
    except Exception as fault:  # noqa: BLE001 - the end of the process: a bug in a hook, or here
        failure("the app has ended by a bug", fault)
        return EXIT_FAILED
    return 0


def main(arguments: Sequence[str]) -> int:
    name, log_format, log_level, *pipe = arguments
    grace_pipe = int(pipe[0]) if pipe else None
    if grace_pipe is not None:
        # Ctrl-C reaches the whole group of processes: with the supervisor's SIGTERM it would be a second signal.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return work(name, log_format, log_level, grace_pipe)  # type: ignore[arg-type]  # Checked by `qanat run`.


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
