"""The web console of the demonstration's own run: kept as a bundle, or live until Ctrl-C."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from demo.broker import running_broker
from demo.claims import claim

WATCHED_S = 2


def show_console(
    console: Console, data: Path, target: Path, *, is_staying: bool, wait: Callable[[], object] | None = None
) -> None:
    """Start the broker of a chapter again, keep what its console shows, and name the addresses of both."""
    console.print("\n[bold]The console[/]: the pipeline's broker again, with all its topics.")
    with running_broker(data) as (process, address, http):
        assert process.stderr is not None
        threading.Thread(target=process.stderr.read, daemon=True).start()  # Its log must not fill the pipe.
        page = keep(http, target / "console.zip")
        console.print(f"Its pages are kept: qanat console --bundle {page}", soft_wrap=True)
        if not is_staying:
            console.print("To look at it live: make demo ARGS=--stay")
            return
        console.print(f"[bold]The console is at http://{http}/console/[/], the broker at {address}.", soft_wrap=True)
        console.print("It stays until Ctrl-C.")
        (wait or threading.Event().wait)()


def keep(http: str, path: Path) -> Path:
    """Pack what the console of a broker shows into one archive."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    line = [sys.executable, "-m", "qanat.app", "bundle", f"http://{http}", "--to", str(path)]
    done = subprocess.run([*line, "--seconds", str(WATCHED_S)], capture_output=True, text=True, timeout=60, check=False)
    claim(done.returncode == 0, f"the pages of the console are kept: {done.stderr.strip()}")
    return path
