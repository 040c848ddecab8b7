"""`qanat metrics`: alerts and dashboards for what brokers measure, as code.

- `rules`         `qanat metrics rules`: alerting and recording rules of Prometheus
- `dashboards`    `qanat metrics dashboards`: five dashboards of Grafana
- `alert`         what an alert is; `alert_table` has all of them, each with its runbook
- `panel_table`   the dashboards' panels and their queries
- `alerts_page`   docs/operating/alerts.md, generated

Rule: an alert names what to do. Where nobody has to do anything, it is a panel.
"""
