"""`qanat version` and the refusal of interpreters that Qanat does not run on."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from qanat import __version__
from qanat.app.doctor import version
from qanat.app.main import run


def test_it_says_what_is_compiled(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "native_modules", lambda: (["qanat.wire.frames", "qanat.wire.placing"], []))

    assert run(["version", "-o", "json"]) == 0

    facts = {row["name"]: row["value"] for row in json.loads(capsys.readouterr().out)}
    assert facts["qanat"] == __version__
    assert facts["core"] == "compiled: 2 of 2 modules"
    assert facts["python"].startswith("CPython 3.")


def test_it_says_what_is_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "native_modules", lambda: (["qanat.wire.frames"], ["qanat.wire.placing"]))

    assert version.facts()["core"] == "1 of 2 modules are interpreted, which is slower"


def test_a_free_threaded_python_is_refused_at_import() -> None:
    program = "import sys; sys.abiflags = 't'; import qanat"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "ImportError: Qanat does not run on free-threaded builds of CPython" in done.stderr
    assert "use the ordinary Python 3." in done.stderr
