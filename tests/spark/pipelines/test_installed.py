"""Pipelines of installed packages: real distributions in a folder of the path."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qanat.app.main import run
from qanat.spark.pipelines.bundled.catalogue import named
from qanat.spark.pipelines.document import PipelineError

PIPELINE = """\
name: {name}
meaning: Orders of the shop.
settings: {{input: orders}}
sources: {{orders: {{topic: "${{input}}"}}}}
steps: {{scored: {{from: orders, python: "shop_pipes.steps:scored"}}}}
sinks: {{out: {{from: scored, console: true}}}}
"""
MODULE = f"""\
from pathlib import Path
from qanat.spark.pipelines.yaml_pipelines import yaml_pipeline

FILE = Path(__file__).with_name("orders.yaml")
TEXT = {PIPELINE.format(name="shop-text")!r}
VALUE = yaml_pipeline({PIPELINE.format(name="shop-value")!r})
NUMBER = 5
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package `shop_pipes` and distributions with these entry points; they are gone afterwards."""
    package = tmp_path / "shop_pipes"
    package.mkdir()
    (package / "__init__.py").write_text(MODULE)
    (package / "orders.yaml").write_text(PIPELINE.format(name="shop-file"))
    (package / "steps.py").write_text("def scored(frame): ...\n")
    (package / "broken.py").write_text("import shop_nowhere\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(distribution: str = "shop", **entries: str) -> None:
        info = tmp_path / f"{distribution}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
        lines = [f"{name.replace('_', '-')} = shop_pipes{target}" for name, target in entries.items()]
        (info / "entry_points.txt").write_text("\n".join(["[qanat.pipelines]", *lines]))

    yield install
    for name in [one for one in sys.modules if one.partition(".")[0] == "shop_pipes"]:
        del sys.modules[name]


def test_a_package_brings_pipelines_as_a_file_as_text_and_as_a_value(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install(shop_file=":FILE", shop_text=":TEXT", shop_value=":VALUE")

    assert run(["pipeline", "list", "-o", "json"]) == 0
    rows = {row["pipeline"]: row for row in json.loads(capsys.readouterr().out)}
    for name in ("shop-file", "shop-text", "shop-value"):
        row = rows[name]
        assert (row["package"], row["settings"], row["meaning"]) == ("shop 1.2", "input", "Orders of the shop.")
        assert run(["pipeline", "check", name, "--set", "input=x"]) == 0
        assert capsys.readouterr().out == f"{name} can be run: 1 source, 1 step, 1 sink\n"
    assert rows["metrics"]["package"].startswith("qanat ")
    with pytest.raises(PipelineError, match=r"there is no pipeline shop-fil; did you mean shop-file\?"):
        named("shop-fil")


def test_what_cannot_be_used_is_listed_with_the_reason(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install(shop_number=":NUMBER", shop_broken=".broken:X", shop_gone=":GONE", other=":TEXT", metrics=":TEXT")
    install("one", shop_text=":TEXT")
    install("two", shop_text=":TEXT")

    assert run(["pipeline", "list", "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    reasons = {(row["pipeline"], row["package"]): row["meaning"] for row in rows}
    assert reasons["shop-number", "shop 1.2"].startswith("cannot be used: shop_pipes:NUMBER is int, but must be YAML")
    assert "cannot be loaded: ModuleNotFoundError: No module named 'shop_nowhere'" in reasons["shop-broken", "shop 1.2"]
    assert reasons["shop-gone", "shop 1.2"].endswith("AttributeError: module 'shop_pipes' has no attribute 'GONE'")
    assert "has the name shop-text: entry point and pipeline need the same one" in reasons["other", "shop 1.2"]
    assert reasons["metrics", "shop 1.2"] == "cannot be used: Qanat has a pipeline of that name"
    assert reasons["shop-text", "one 1.2"] == "cannot be used: two 1.2 has a pipeline of that name as well"
    assert named("metrics").meaning.startswith("Measurements")
    with pytest.raises(PipelineError, match=r"pipeline shop-number of shop 1.2: shop_pipes:NUMBER is int"):
        named("shop-number")
