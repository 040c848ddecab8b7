"""`qanat metrics dashboards`: dashboards for Grafana."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.metrics.panel_table import DASHBOARDS, Dashboard, Panel

_SOURCE = {"type": "prometheus", "uid": "${source}"}
_COLUMNS, _WIDTH, _HEIGHT = 2, 12, 8


def dashboards(to: Annotated[Path, Parameter(name=["--to", "-t"])], *, job: str = "qanat") -> None:
    """Write five dashboards for Grafana into a folder: cluster, brokers, topics, groups and queues, Spark.

        qanat metrics dashboards --to /etc/grafana/dashboards

    Parameters
    ----------
    to:
        A folder that exists.
    job:
        The name of the scrape job in Prometheus.
    """
    if not to.is_dir():
        raise WrongArgumentError(f"there is no folder {to}: create it, or name another")
    for one in DASHBOARDS:
        path = to / f"{one.name}.json"
        path.write_text(json.dumps(dashboard_json(one, job), indent=2) + "\n")
        print(f"wrote {path}")


def dashboard_json(dashboard: Dashboard, job: str = "qanat") -> dict[str, Any]:
    """A dashboard as Grafana imports it."""
    return {
        "uid": dashboard.name,
        "title": dashboard.title,
        "tags": ["qanat"],
        "schemaVersion": 38,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus", "label": "Source"}]},
        "panels": [_panel(number, one, job) for number, one in enumerate(dashboard.panels)],
    }


def _panel(number: int, panel: Panel, job: str) -> dict[str, Any]:
    row, column = divmod(number, _COLUMNS)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": query.replace('job="qanat"', f'job="{job}"'),
                "legendFormat": legend,
            }
            for index, (query, legend) in enumerate(panel.queries)
        ],
    }
