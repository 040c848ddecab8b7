"""Alerts: each fires where it should, is quiet where it should be, and has a runbook; judged by promtool."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.app.metrics.alert_cases import CASES
from tools.toolchains.prometheus import have_promtool
from tools.toolchains.registries import MissingToolError

from qanat.app.command_tree import COMMANDS, Command
from qanat.app.metrics.alert_table import ALERTS, RECORDED
from qanat.app.metrics.alerts_page import page
from qanat.app.metrics.rules import rules_text
from qanat.servers.metrics.families import FAMILIES

ROOT = Path(__file__).resolve().parents[3]
_SUFFIX = re.compile(r"_(bucket|sum|count)$")


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What it says; where it cannot be had, the test is skipped."""
    try:
        program = have_promtool()
    except MissingToolError as reason:
        pytest.skip(f"the rules are not judged: {reason}")
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=300, check=False)


def write_tests(folder: Path) -> Path:
    """A file of promtool with two tests per alert: it says which alerts fire, without their texts."""
    (folder / "rules.yml").write_text(rules_text())
    tests = []
    for name, case in CASES.items():
        for series, is_firing in ((case.fires, True), (case.quiet, False)):
            expression = f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) or vector(0)'
            expected = [{"labels": "{}", "value": int(is_firing)}]
            tests.append(
                {
                    "interval": "1m",
                    "input_series": [{"series": one, "values": values} for one, values in series.items()],
                    "promql_expr_test": [{"expr": expression, "eval_time": f"{case.at}m", "exp_samples": expected}],
                }
            )
    path = folder / "tests.yml"
    path.write_text(yaml.safe_dump({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": tests}))
    return path


def test_prometheus_accepts_the_rules(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(rules_text())
    checked = promtool("check", "rules", str(tmp_path / "rules.yml"))

    assert checked.returncode == 0, checked.stderr
    assert f"{len(ALERTS) + len(RECORDED)} rules found" in checked.stdout


@pytest.mark.long
@pytest.mark.data
def test_every_alert_fires_where_it_should_and_is_quiet_where_it_should_be(tmp_path: Path) -> None:
    judged = promtool("test", "rules", str(write_tests(tmp_path)))

    assert judged.returncode == 0, judged.stdout + judged.stderr


def test_every_alert_has_both_tests() -> None:
    assert [alert.name for alert in ALERTS] == list(CASES)


def test_every_metric_of_a_rule_exists() -> None:
    known = {family.name for family in FAMILIES} | {"up"}
    for expression in [*(alert.expression for alert in ALERTS), *RECORDED.values()]:
        for name in re.findall(r"\b(?:qanat_|process_)\w+", expression):
            assert name in known or _SUFFIX.sub("", name) in known, name


def test_every_command_of_a_runbook_exists() -> None:
    known = set()
    for one in COMMANDS:
        names = [one.name] if isinstance(one.name, str) else list(one.name)
        for name in names:
            verbs = [] if isinstance(one, Command) else [command.name for command in one.commands]
            known |= {name, *(f"{name} {verb if isinstance(verb, str) else verb[0]}" for verb in verbs)}
    for alert in ALERTS:
        for command in re.findall(r"`qanat ([a-z]+(?: [a-z]+)?)", " ".join((*alert.look, *alert.do))):
            assert command in known, command


def test_the_page_of_alerts_is_up_to_date() -> None:
    assert (ROOT / "docs" / "operating" / "alerts.md").read_text() == page()


def test_another_job_and_another_page_are_used_where_they_are_named() -> None:
    text = rules_text("mine", "https://wiki/alerts")

    assert 'up{job="mine"} == 0' in text
    assert "https://wiki/alerts#qanatbrokerdown" in text
