"""Every example of the client's pages runs as it stands, and together they show every public name."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import get_origin

import pytest

import qanat.client
import qanat.client.serializers
from qanat.testing import EmbeddedBroker

PAGES = Path(__file__).resolve().parents[2] / "docs" / "client"


def examples(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.mark.parametrize("name", ["index.md", "producer.md", "push.md", "serializers.md"])
def test_the_examples_of_a_page_run(name: str) -> None:
    found = examples(PAGES / name)
    assert found
    with EmbeddedBroker() as broker:
        for example in found:
            assert "localhost:9092" in example
            program = compile(
                example.replace("localhost:9092", broker.bootstrap_servers), name, "exec", dont_inherit=True
            )
            exec(program, {"__name__": "__main__"})


@pytest.mark.parametrize("example", examples(PAGES / "errors.md"), ids=["before", "afterwards", "apps"])
def test_the_examples_of_errors_run(example: str, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(example)
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


MODULES = [qanat.client, qanat.client.serializers]


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_used_by_an_example(module: ModuleType) -> None:
    shown = {
        name.name
        for page in sorted(PAGES.glob("*.md"))
        for example in examples(page)
        for statement in ast.walk(ast.parse(example))
        if isinstance(statement, ast.ImportFrom) and statement.module == module.__name__
        for name in statement.names
    }
    assert sorted(set(module.__all__) - shown) == []


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_and_method_says_what_it_is(module: ModuleType) -> None:
    silent = []
    for name in module.__all__:
        found = getattr(module, name)
        if get_origin(found) is not None:
            continue  # An alias of types, which has no docstring: its example says what it is.
        # A value's generated signature, and the docstring of `NamedTuple`, tell nothing.
        if not (found.__doc__ or "").strip() or found.__doc__.startswith(f"{name}("):
            silent.append(name)
    assert silent == []
