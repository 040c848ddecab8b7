"""`qanat metrics rules`: alerting and recording rules for Prometheus."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from qanat.app.metrics.alert import RUNBOOKS, Alert
from qanat.app.metrics.alert_table import BROKER, CLUSTER, GROUPS, RECORDED, STORAGE

_GROUPS = {"qanat-cluster": CLUSTER, "qanat-storage": STORAGE, "qanat-broker": BROKER, "qanat-groups": GROUPS}


def rules(
    to: Annotated[Path | None, Parameter(name=["--to", "-t"])] = None, *, job: str = "qanat", runbooks: str = RUNBOOKS
) -> None:
    """Print alerting and recording rules for Prometheus, or write them to a file.

        qanat metrics rules --to /etc/prometheus/rules/qanat.yml

    Every alert has a runbook: what it means, where to look, what to do.

    Parameters
    ----------
    to:
        A file; without it standard output.
    job:
        The name of the scrape job in Prometheus.
    runbooks:
        The address of the page with the runbooks.
    """
    text = rules_text(job, runbooks)
    if to is None:
        print(text, end="")
    else:
        to.write_text(text)
        print(f"wrote {to}")


def rules_text(job: str = "qanat", runbooks: str = RUNBOOKS) -> str:
    """The rules as YAML."""
    import yaml

    groups: list[dict[str, Any]] = [
        {"name": name, "rules": [_alerting(one, job, runbooks) for one in alerts]} for name, alerts in _GROUPS.items()
    ]
    recorded = [{"record": name, "expr": expression} for name, expression in RECORDED.items()]
    groups.append({"name": "qanat-recorded", "rules": recorded})
    return str(yaml.safe_dump({"groups": groups}, sort_keys=False, allow_unicode=True, width=200))


def _alerting(alert: Alert, job: str, runbooks: str) -> dict[str, Any]:
    # A function: a name with a backslash is no template.
    expression = re.sub('job="qanat"', lambda _: f'job="{job}"', alert.expression)
    return {
        "alert": alert.name,
        "expr": expression,
        "for": alert.lasts,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "runbook_url": f"{runbooks}#{alert.anchor}"},
    }
