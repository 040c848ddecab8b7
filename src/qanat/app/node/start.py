"""`qanat start` and `qanat dev` as the command line knows them; what they do is in `serving`.

`qanat start` in its plain form does not even come here: `quick_start`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from qanat.app.node.event_log import LogFormat
from qanat.app.node.serving import StartFlags, serve
from qanat.app.settings.loading import flag
from qanat.telemetry.events import LogLevel

Assignments = Annotated[list[str] | None, Parameter(name="-X", negative="", allow_leading_hyphen=True)]
LogFormatOption = Annotated[LogFormat, Parameter(name="--log-format")]


def start(
    *,
    config: Annotated[Path | None, Parameter(name=["--config", "-c"])] = None,
    port: int | None = None,
    host: str | None = None,
    data_dir: Annotated[str | None, Parameter(metavar="PATH")] = None,
    node_id: str | None = None,
    workers: int = 1,
    settings: Assignments = None,
    log_format: LogFormatOption = "text",
    log_level: LogLevel = "info",
) -> int:
    """Run a broker on this machine until it is told to stop (Ctrl-C or SIGTERM).

    Settings come from defaults, then the file, then the environment (`QANAT_NUM_PARTITIONS=3`), then flags;
    the later wins. Names are Kafka's. A name that is not known is an error.

        qanat start
        qanat start --port 9093 --data-dir ./data -X num.partitions=3
        NODE_ID=local-001 BROKER_PORT=9092 DATA_DIR=./data qanat start
        qanat start --workers 4                  (a broker per core, as one cluster)

    Exit codes: 0 stopped in good order, 1 could not start (one sentence says why), 2 wrong usage.

    Parameters
    ----------
    config:
        Settings file: YAML, or Kafka's server.properties.
    port:
        Port of the Kafka listener; 0 takes a free one.
    host:
        Address to listen on; 0.0.0.0 for every one of this machine.
    data_dir:
        Where everything is kept.
    node_id:
        Number of this node, or a name.
    workers:
        Brokers to run, each a process of its own on the next port: one per core is as many as make sense.
    settings:
        Any other setting, as often as needed: -X name=value.
    log_format:
        Form of the log on stderr.
    log_level:
        The least important events that are logged.
    """
    if workers != 1:
        from qanat.app.cluster.workers import serve_workers

        flags = StartFlags(config, port, host, data_dir, node_id, settings or (), log_format, log_level)
        return serve_workers(workers, flags)
    return serve(
        StartFlags(config, port, host, data_dir, node_id, settings or (), log_format, log_level),
        os.environ,
    )


def dev(
    *,
    port: int = 0,
    settings: Assignments = None,
    log_format: LogFormatOption = "text",
    log_level: LogLevel = "warning",
) -> int:
    """Run a throw-away broker in memory: quick, private, gone when it ends.

    Nothing is read from files or the environment, nothing is written to disk. Groups form at once.

        qanat dev --port 9092

    Parameters
    ----------
    port:
        Port of the Kafka listener; 0 takes a free one, which is printed.
    settings:
        Any setting, as often as needed: -X name=value.
    log_format:
        Form of the log on stderr.
    log_level:
        The least important events that are logged.
    """
    presets = [
        flag("storage.engine", "memory", "qanat dev"),
        flag("group.initial.rebalance.delay.ms", 0, "qanat dev"),
        flag("http.port", 0, "qanat dev"),
    ]
    flags = StartFlags(port=port, assignments=settings or (), log_format=log_format, log_level=log_level)
    return serve(flags, {}, presets)
