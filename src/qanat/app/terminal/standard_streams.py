"""The standard streams, also when they are closed, full or without a reader.

Rule 1: a descriptor that was closed before the start is opened, so that no socket ever gets its number.
Rule 2: a reader that goes away (`qanat … | head`) is no error; the exit code is that of a program which SIGPIPE ended.
"""

from __future__ import annotations

import os
import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING

from qanat.app.terminal.printable import printable

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

EXIT_FAILED = 1
EXIT_PIPE_CLOSED = 141


class _StandardOutput(FileIO):
    """Descriptor 1; stores its error, because a bare `OSError` does not say which stream failed."""

    fault: OSError | None = None

    def write(self, content: Buffer, /) -> int:
        try:
            return super().write(content)
        except OSError as fault:
            self.fault = fault
            raise


def prepare() -> None:
    """Make the streams safe to use, before anything is opened."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # open() returns the lowest free number, which is this one.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is not None:
        raw = _StandardOutput(1, "w", closefd=False)
        encoding, is_terminal = sys.stdout.encoding, sys.stdout.isatty()
        sys.stdout = TextIOWrapper(BufferedWriter(raw), encoding, "backslashreplace", line_buffering=is_terminal)


def print_error(sentence: str) -> None:
    """One sentence on stderr, if that can be written to."""
    if sys.stderr is None:
        return
    try:
        print(f"qanat: {printable(sentence)}", file=sys.stderr, flush=True)
    except OSError:
        # Some Pythons try once more at exit, and then end with 120 instead of our code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    except ValueError:
        pass


def flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def report_os_error(fault: OSError) -> int:
    """Print an error of the operating system; returns the exit code."""
    if not _is_of_stdout(fault):
        print_error(_sentence(fault))
        return EXIT_FAILED
    # Python flushes once more at exit; into /dev/null it raises nothing.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if isinstance(fault, BrokenPipeError):
        return EXIT_PIPE_CLOSED
    print_error(f"cannot write to standard output: {fault.strerror}")
    return EXIT_FAILED


def _is_of_stdout(fault: OSError) -> bool:
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return isinstance(fault, BrokenPipeError) or (isinstance(raw, _StandardOutput) and raw.fault is fault)


def _sentence(fault: OSError) -> str:
    try:
        os.getcwd()
    except OSError:
        return "the current directory does not exist any more: change to another one"
    where = f"{fault.filename}: " if fault.filename is not None else ""
    return f"{where}{fault.strerror or fault}"
