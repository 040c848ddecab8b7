"""`qanat diagnose`, as a process against a real broker."""

from __future__ import annotations

import json

from tests.app.conftest import Run


def test_a_broker_at_rest_is_limited_by_nothing(run: Run) -> None:
    shown, document = run("diagnose", "-s", "1"), run("diagnose", "-s", "1", "-o", "json")

    found = json.loads(document.stdout)
    # Other tests may take the cores of this machine: then that is said.
    assert {one["cause"] for one in found["findings"]} <= {"busy_machine"}
    assert document.returncode == (1 if found["findings"] else 0)
    assert "Nothing limits this cluster." in shown.stdout or "gets no core" in shown.stdout
    assert (found["silent"], len(found["brokers"])) == ([], 1)
    assert 1 <= found["seconds"] < 60


def test_wrong_input_gets_one_sentence(run: Run) -> None:
    for words in (("-s", "0"), ("-s", "301"), ("-s", "nan")):
        refused = run("diagnose", *words)
        assert refused.returncode != 0
        assert "from 1 to 300" in refused.stderr
        assert "Traceback" not in refused.stderr
    unreachable = run("diagnose", "-b", "127.0.0.1:1", "--timeout", "1")
    assert unreachable.returncode != 0
    assert "Traceback" not in unreachable.stderr
