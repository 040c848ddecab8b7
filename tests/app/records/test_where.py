"""`qanat consume --where` on a real broker."""

from __future__ import annotations

from tests.app.conftest import Run


def test_a_consumer_prints_what_fits(run: Run) -> None:
    run("topic", "create", "w-orders", "-p", "1")
    run("produce", "w-orders", given='{"n": 1}\nno json\n{"n": 2}\n{"n": 3}\n')

    assert run("consume", "w-orders", "-e", "--where", "json.n >= 2").stdout == '{"n": 2}\n{"n": 3}\n'
    assert run("consume", "w-orders", "-e", "-w", "offset == 1").stdout == "no json\n"
    assert run("consume", "w-orders", "-n", "1", "-w", "json.n > 1").stdout == '{"n": 2}\n'
