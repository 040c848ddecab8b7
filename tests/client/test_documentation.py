"""Every example of the client's pages runs as it stands, on a broker of the test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from qanat.testing import EmbeddedBroker

PAGES = Path(__file__).resolve().parents[2] / "docs" / "client"


@pytest.mark.parametrize("name", ["index.md", "producer.md"])
def test_the_examples_of_a_page_run(name: str) -> None:
    examples = re.findall(r"```python\n(.*?)```", (PAGES / name).read_text(), re.DOTALL)
    assert examples
    with EmbeddedBroker() as broker:
        for example in examples:
            assert "localhost:9092" in example
            program = compile(example.replace("localhost:9092", broker.bootstrap_servers), name, "exec")
            exec(program, {"__name__": "__main__"})
