"""`qanat start --workers N`: several brokers on one host as one cluster, a process each, to use every core.

They count as one host: topics have one replica unless they ask for more. Broker i has the number of the first one + i.
It listens on the port of the first one + i (on that of each of several listeners + i), for other brokers on 10,000
above that, for HTTP on the HTTP port of the first one + i, for metrics on `metrics.port` + i. `bootstrap.port` is one
port that all of them serve.
"""

from __future__ import annotations

import os

from qanat.app.client.arguments import WrongArgumentError, assignments
from qanat.app.cluster.cluster_plan import ClusterPlan, plan_cluster
from qanat.app.cluster.local_cluster import BROKERS_MAX, serve_plan
from qanat.app.cluster.pid_file import locked
from qanat.app.node.event_log import configure
from qanat.app.node.serving import StartFlags
from qanat.app.settings.loading import load
from qanat.app.settings.node_settings import NodeSettings
from qanat.servers.http.settings import NOT_SERVED

HTTP_PORT = 8080
_RESTART_AFTER_S = 2.0


def serve_workers(workers: int, flags: StartFlags) -> int:
    """Run the workers until a signal stops them; returns the exit code."""
    if not 1 <= workers <= BROKERS_MAX:
        raise WrongArgumentError(f"--workers {workers}: write a number from 1 to {BROKERS_MAX}")
    configure(flags.log_format, flags.log_level)
    settings = load(flags.values(), flags.config, os.environ).settings
    if not isinstance(settings.node_id, int) and not str(settings.node_id).isdigit():
        raise WrongArgumentError(f"--node-id {settings.node_id}: workers are numbered; write a number or leave it out")
    http_port = HTTP_PORT if settings.http.http_port is None else settings.http.http_port
    planned = plan_cluster(
        settings.data_dir,
        workers,
        settings.broker.port,
        None if http_port == NOT_SERVED else http_port,
        _settings(flags, settings),
        first_id=int(settings.node_id),
    )
    arguments = ["--log-format", flags.log_format, "--log-level", flags.log_level]
    if flags.config is not None:
        arguments += ["--config", str(flags.config)]
    if flags.host is not None:
        arguments += ["--host", flags.host]
    plan = ClusterPlan(planned.data_dir, planned.brokers, planned.settings, tuple(arguments), is_one_host=True)
    with locked(plan.data_dir):
        return serve_plan(plan, _RESTART_AFTER_S)


def _settings(flags: StartFlags, settings: NodeSettings) -> list[str]:
    """The settings of the command line; several listeners are among them wherever they come from."""
    given = assignments(list(flags.assignments))
    for name, listeners in (("listeners", settings.listeners), ("advertised.listeners", settings.advertised_listeners)):
        if listeners:
            given[name] = ",".join(f"{one.name}://{one.host}:{one.port}" for one in listeners)
    if settings.broker.advertised_port is not None and "advertised.listeners" not in given:
        given["advertised.port"] = str(settings.broker.advertised_port)
    if settings.broker.metrics_port is not None:
        given["metrics.port"] = str(settings.broker.metrics_port)
    if settings.inter_broker_listener_name is not None:
        given["inter.broker.listener.name"] = settings.inter_broker_listener_name
    return [f"{name}={value}" for name, value in given.items()]
