"""`qanat start`: run a broker. The node itself is in `node.serving`.

`quick_start` reads a plain command line without this module and its parser.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from qanat.app.node.event_log import LogFormat
from qanat.app.node.serving import StartFlags, serve
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
    """Run a broker on this machine until Ctrl-C or SIGTERM stops it.

    Settings come from defaults, then the file, then the environment (`QANAT_NUM_PARTITIONS=3`), then flags;
    later ones win. Names are Kafka's. An unknown name is an error.

        qanat start
        qanat start --port 9093 --data-dir ./data -X num.partitions=3
        NODE_ID=local-001 BROKER_PORT=9092 DATA_DIR=./data qanat start
        qanat start --workers 4                  (a broker per core, as one cluster)

    Exit codes: 0 clean shutdown, 1 could not start (one sentence says why), 2 wrong usage.

    Parameters
    ----------
    config:
        Settings file: YAML, or Kafka's server.properties.
    port:
        Port of the Kafka listener; 0 takes a free one.
    host:
        Address to listen on; 0.0.0.0 for all addresses of this machine.
    data_dir:
        Directory of all data.
    node_id:
        Number of this node, or a name.
    workers:
        Brokers to run, each a process of its own on the next port: at most one per core makes sense.
    settings:
        Any other setting, as often as needed: -X name=value.
    log_format:
        Form of the log on stderr.
    log_level:
        The least important events to log.
    """
    if workers != 1:
        from qanat.app.start.workers import serve_workers

        flags = StartFlags(config, port, host, data_dir, node_id, settings or (), log_format, log_level)
        return serve_workers(workers, flags)
    return serve(
        StartFlags(config, port, host, data_dir, node_id, settings or (), log_format, log_level),
        os.environ,
    )
