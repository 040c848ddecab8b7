"""The command line: `qanat`. Its commands are listed in `command_tree`.

Rule: a user's mistake ends as one sentence on stderr and exit code 1, or 2 where the command line itself is wrong; a
      traceback means a bug.

Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted, 141 the reader of the output is gone, 143
terminated.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import TYPE_CHECKING

from qanat import __version__
from qanat.app.command_tree import build_app
from qanat.app.terminal.standard_streams import EXIT_PIPE_CLOSED, flush, prepare, print_error, report_os_error
from qanat.model.errors import QanatError

if TYPE_CHECKING:
    from cyclopts import App, CycloptsError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
_AGAIN_S = 0.01
"""Delay before an interrupt is sent again that could not be raised where it arrived."""
_ENDED_BY_SIGNAL = {128 + number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
_CLUSTER_FLAGS = ("-X", "-b", "--bootstrap", "--bootstrap-server", "--profile", "--timeout", "-F", "--command-config")
_SERVERS = (("start",), ("dev",), ("run",), ("edge", "consumer"))
"""Commands that handle signals themselves, and that run without standard output."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    if list(arguments) == ["--version"]:
        # Scripts call this often; the parser would load slowly, and rich with it, to print one line.
        return _dispatch(arguments, _print_version)
    is_server = any(tuple(arguments[: len(names)]) == names for names in _SERVERS)
    if sys.stdout is None and not is_server:
        print_error("standard output is closed: there is nowhere to print")
        return EXIT_FAILED
    if is_server:
        return _dispatch(arguments, _run_command)
    with _signals_interrupt() as ended_by:
        try:
            code = _dispatch(arguments, _run_command)
        except KeyboardInterrupt:  # It arrived during cleanup.
            code = EXIT_INTERRUPTED
        return 128 + ended_by[0] if code == EXIT_INTERRUPTED and ended_by else code


def _dispatch(arguments: Sequence[str], act: Callable[[Sequence[str]], int]) -> int:
    try:
        result = act(arguments)
        flush()
    except QanatError as fault:
        print_error(str(fault))
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except SystemExit as ending:
        # rich ends the process this way when the reader of its output is gone.
        return EXIT_PIPE_CLOSED if isinstance(ending.__context__, BrokenPipeError) else int(ending.code or 0)
    except OSError as fault:
        return report_os_error(fault)
    except UnicodeEncodeError as fault:
        print_error(f"{fault.object[:100]!r} is not UTF-8")
        return EXIT_FAILED
    return result


@contextmanager
def _signals_interrupt() -> Iterator[list[int]]:
    """SIGTERM and SIGHUP end a command as Ctrl-C does: it leaves its groups and removes temporary folders.

    Python passes an interrupt that arrives while it frees an object (a weak reference, `__del__`) to
    `sys.unraisablehook` alone, and it would be lost: this sends it once more.
    """
    ended_by: list[int] = []
    report_unraisable = sys.unraisablehook

    def interrupt_again(unraisable: sys.UnraisableHookArgs) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            report_unraisable(unraisable)
            return
        number = ended_by[-1] if ended_by else signal.SIGINT
        again = threading.Timer(_AGAIN_S, signal.pthread_kill, (threading.main_thread().ident, number))
        again.daemon = True
        again.start()

    def interrupt(number: int, frame: object) -> None:
        ended_by.append(number)
        if not callable(signal.getsignal(signal.SIGINT)):  # As in a background job of a script.
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    if (
        threading.current_thread() is not threading.main_thread()
    ):  # Threads cannot set handlers, nor are they interrupted.
        yield ended_by
        return
    before = {}
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # A signal that is ignored (nohup) stays ignored.
            before[number] = signal.signal(number, interrupt)
    sys.unraisablehook = interrupt_again
    try:
        yield ended_by
    finally:
        sys.unraisablehook = report_unraisable
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_version(_: Sequence[str]) -> int:
    print(f"qanat {__version__}")
    return 0


def _run_quick_start(arguments: Sequence[str]) -> int | None:
    """Run a plain `qanat start` without loading the parser; None for any other command line."""
    if not arguments or arguments[0] != "start":
        return None
    from qanat.app.start.quick_start import quick_start

    return quick_start(arguments[1:])


def _run_command(arguments: Sequence[str]) -> int:
    result = _run_quick_start(arguments)
    return _run_parser(arguments) if result is None else result


def _run_parser(arguments: Sequence[str]) -> int:
    from cyclopts import CycloptsError

    app = build_app()
    arguments = _cluster_last(arguments)
    if ("-X", "list") in pairwise(arguments):
        # As in kcat and rpk, behind any command.
        arguments = ("profile", "settings")
    if "--help" in arguments or "-h" in arguments:
        _explain(app, arguments)
    try:
        result = app(
            list(arguments),
            exit_on_error=False,
            print_error=False,
            result_action="return_int_as_exit_code_else_zero",
        )
    except CycloptsError as fault:
        print_error(_usage(fault))
        return EXIT_USAGE
    return int(result)


def _usage(fault: CycloptsError) -> str:
    """The error of a command line, and the --help that explains it."""
    from cyclopts import UnusedCliTokensError

    reason = " ".join(str(fault).split()).rstrip(".")
    if isinstance(fault, UnusedCliTokensError) and fault.unused_tokens:
        reason = f"{fault.unused_tokens[0]!r} is one argument too many"
    return f"{reason}; see {' '.join(('qanat', *(fault.command_chain or ()), '--help'))}"


def _cluster_last(arguments: Sequence[str]) -> Sequence[str]:
    """Move flags that name the cluster behind the command: `qanat -b host:9092 topic list`."""
    rest, moved = list(arguments), []
    while rest and rest[0].partition("=")[0] in _CLUSTER_FLAGS:
        count = 1 if "=" in rest[0] else 2
        moved += rest[:count]
        rest = rest[count:]
    end = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:end], *moved, *rest[end:]]


def _explain(app: App, arguments: Sequence[str]) -> None:
    """Import the command that --help is for and show its docstring, examples included."""
    names = [argument for argument in arguments if not argument.startswith("-")]
    command = app.parse_commands(names)[1][-1]
    if command.default_command is not None and command is not app:
        command.help = _with_fences(command.default_command.__doc__ or "")
        if names[:2] in (["pipeline", "run"], ["pipeline", "submit"]) and names[2:]:
            from qanat.app.pipelines.pipeline_options import options_help

            command.help += options_help(names[2])


def _with_fences(docstring: str) -> str:
    """The text before the parameters, examples in fences: the parser takes an indented first block for prose."""
    import inspect

    text = inspect.cleandoc(docstring).partition("\nParameters\n---")[0].rstrip()
    lines: list[str] = []
    for line in text.split("\n"):
        is_example = line.startswith("    ")
        is_inside = bool(lines) and lines[-1].startswith("    ")
        if is_example != is_inside:
            lines.append("```")
        lines.append(line)
    if lines[-1].startswith("    "):
        lines.append("```")
    return "\n".join(line.removeprefix("    ") for line in lines)


def main() -> None:
    """The entry of the console script."""
    prepare()
    code = run(sys.argv[1:])
    if code in _ENDED_BY_SIGNAL:
        # CPython kills itself with SIGINT at exit if an interrupt once struck inside an exec(), handled or not
        # (dataclasses and named tuples use one): the exit code would be lost.
        with suppress(OSError, ValueError):
            flush()
        os._exit(code)
    sys.exit(code)
