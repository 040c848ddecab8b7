"""`docs/operating/alerts.md`, generated from the alerts: `python -m qanat.app.metrics.alerts_page`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from qanat.app.metrics.alert import Alert
from qanat.app.metrics.alert_table import ALERTS, BROKER, CLUSTER, GROUPS, STORAGE

_INTRODUCTION = """\
# Alerts and dashboards

```sh
qanat metrics rules --to /etc/prometheus/rules/qanat.yml
qanat metrics dashboards --to /etc/grafana/dashboards
```

The first writes alerting rules for Prometheus, each with its runbook on this page, and recording rules, some under the
names of kafka_exporter (`kafka_consumergroup_lag`). `--job` names the scrape job (`qanat`), `--runbooks` the address of
your copy of this page. The second writes five dashboards of Grafana as JSON (cluster, brokers, topics, groups and
queues, Spark); they ask for a data source of Prometheus.

An alert asks somebody to act. Where nobody has to, it is a panel of a dashboard.
"""
_PARTS = {"The cluster": CLUSTER, "Storage": STORAGE, "A broker": BROKER, "Groups, queues, transactions": GROUPS}


def page() -> str:
    """The page."""
    return "".join(_page())


def _page() -> Iterator[str]:
    yield _INTRODUCTION
    yield "\n| alert | severity | lasts |\n| --- | --- | --- |\n"
    yield from (f"| [{one.name}](#{one.anchor}) | {one.severity} | {one.lasts} |\n" for one in ALERTS)
    for title, alerts in _PARTS.items():
        yield f"\n## {title}\n"
        for alert in alerts:
            yield from _runbook(alert)


def _runbook(alert: Alert) -> Iterator[str]:
    yield f"\n### {alert.name}\n\n```\n{alert.expression}\n```\n\n{alert.means}\n\n"
    yield f"Look at {'; '.join(alert.look)}.\n\n"
    yield from (f"{number}. {one}\n" for number, one in enumerate(alert.do, 1))


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/operating/alerts.md")
    path.write_text(page())
    print(f"{path} is up to date")
