"""Dashboards: every query names metrics that exist, Prometheus can read it, and Grafana can import the file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml
from tests.app.conftest import Run
from tests.app.metrics.test_alerts import promtool

from qanat.app.metrics.dashboards import dashboard_json
from qanat.app.metrics.panel_table import DASHBOARDS
from qanat.servers.metrics.families import FAMILIES
from qanat.telemetry import pipeline_families
from qanat.telemetry.exposition import Family

QUERIES = [query for one in DASHBOARDS for panel in one.panels for query, _ in panel.queries]


def known_metrics() -> dict[str, tuple[str, ...]]:
    """Labels by metric, of brokers and of pipelines."""
    found = {family.name: family.labels for family in FAMILIES}
    for value in vars(pipeline_families).values():
        if isinstance(value, tuple):
            found |= {family.name: family.labels for family in value if isinstance(family, Family)}
    return found


def test_every_metric_of_a_panel_exists() -> None:
    known = known_metrics()
    for query in QUERIES:
        for name in re.findall(r"\b(?:qanat_|process_)\w+", query):
            assert name.removesuffix("_bucket") in known, name


def test_every_legend_names_a_label_that_its_series_have() -> None:
    known = known_metrics()
    for dashboard in DASHBOARDS:
        for panel in dashboard.panels:
            for query, legend in panel.queries:
                labels = {
                    "instance",
                    *(
                        label
                        for name in re.findall(r"qanat_\w+", query)
                        for label in known.get(name.removesuffix("_bucket"), ())
                    ),
                }
                assert set(re.findall(r"{{(\w+)}}", legend)) <= labels, (panel.title, legend)


def test_prometheus_reads_every_query(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(QUERIES)]
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    checked = promtool("check", "rules", str(tmp_path / "panels.yml"))

    assert checked.returncode == 0, checked.stderr
    assert f"{len(QUERIES)} rules found" in checked.stdout


def test_panels_do_not_overlap_and_have_numbers_of_their_own() -> None:
    for dashboard in DASHBOARDS:
        panels = dashboard_json(dashboard)["panels"]
        places = {(one["gridPos"]["x"], one["gridPos"]["y"]) for one in panels}

        assert len(places) == len({one["id"] for one in panels}) == len(dashboard.panels)


def test_the_command_writes_five_files_that_are_json(run: Run, tmp_path: Path) -> None:
    done = run("metrics", "dashboards", "--to", str(tmp_path), "--job", "mine")
    files = sorted(tmp_path.glob("*.json"))

    assert done.returncode == 0
    assert [path.stem for path in files] == sorted(one.name for one in DASHBOARDS)
    assert (
        'up{job="mine"}' in json.loads((tmp_path / "qanat-cluster.json").read_text())["panels"][0]["targets"][0]["expr"]
    )


def test_a_folder_that_is_not_there_is_named(run: Run, tmp_path: Path) -> None:
    done = run("metrics", "dashboards", "--to", str(tmp_path / "nowhere"))

    assert done.returncode != 0
    assert "there is no folder" in done.stderr


def test_rules_are_printed_or_written(run: Run, tmp_path: Path) -> None:
    printed = run("metrics", "rules")
    written = run("metrics", "rules", "--to", str(tmp_path / "qanat.yml"))

    assert yaml.safe_load(printed.stdout) == yaml.safe_load((tmp_path / "qanat.yml").read_text())
    assert written.stdout == f"wrote {tmp_path / 'qanat.yml'}\n"
