"""Administration and observation over HTTP.

- `topic_admin`, `config_admin`, `cluster_admin`  topics, settings, brokers and transactions
- `traffic`                    sizes and rates, collected while someone looks; `rate_history` their past,
                               `traffic_admin` shows them
- `security_admin`             users and rules; `session_admin` signing in and out
- `pipeline_runs`              runs of pipelines, read only
- `health`                     whether the node serves, and its metrics
- `restartable`                whether the node may be restarted now
- `openapi`, `documentation`   `/openapi.json` and `/docs`, made from the table of operations

Consumer groups are in `servers.http.groups`.
"""
