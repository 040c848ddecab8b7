"""The end of the demonstration: the console of its own run, kept, and live with --stay."""

from __future__ import annotations

import io
import urllib.request
from pathlib import Path

from demo.broker import produce, running_broker
from demo.console import show_console
from rich.console import Console

from qanat.app.diagnosis.bundle_file import read_bundle


def test_the_run_s_own_console_is_kept_and_served_until_it_is_stopped(tmp_path: Path) -> None:
    data, shown = tmp_path / "broker", io.StringIO()
    with running_broker(data) as (_, address, _http):
        produce(address, 10, lambda count: None)
    console = Console(file=shown, width=200)
    show_console(console, data, tmp_path, is_staying=False)

    assert read_bundle(tmp_path / "console.zip").answers["/api/v1/topics/orders"].status == 200
    assert f"qanat console --bundle {tmp_path}/console.zip" in shown.getvalue()

    def look() -> None:
        url = shown.getvalue().split("The console is at ")[1].split(",")[0]
        with urllib.request.urlopen(url, timeout=20) as page:
            assert b"<title>Qanat" in page.read()

    show_console(console, data, tmp_path, is_staying=True, wait=look)
