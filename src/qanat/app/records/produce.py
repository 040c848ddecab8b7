"""`qanat produce`: write lines of standard input as records."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.client_settings import Acks, CompressionName
from qanat.app.client.target import HERE, Target, run
from qanat.app.records.record_producer import LineParser, Partitioner, RecordSender, line_limit
from qanat.app.terminal.progress import byte_progress, size_of
from qanat.app.terminal.stdin_lines import STDIN, LineLimit, read_lines
from qanat.connection.cluster import Cluster
from qanat.wire.compression import Codec

_ACKS = {"all": -1, "1": 1, "0": 0}

Flag = Annotated[bool, Parameter(negative="")]


def produce(
    topic: str,
    /,
    *,
    key_delimiter: Annotated[str | None, Parameter(name=["--key-delimiter", "-k"], allow_leading_hyphen=True)] = None,
    key: str | None = None,
    headers: Annotated[list[str] | None, Parameter(name=["--header", "-H"], negative="")] = None,
    partition: Annotated[int | None, Parameter(name=["--partition", "-p"])] = None,
    compression: Annotated[CompressionName | None, Parameter(name=["--compression", "-z"])] = None,
    acks: Acks | None = None,
    null: Annotated[bool, Parameter(name=["--null", "-Z"], negative="")] = False,
    json_envelope: Annotated[bool, Parameter(name=["--json-envelope", "-J"], negative="")] = False,
    keep_partition: Flag = False,
    verbose: Annotated[bool, Parameter(name=["--verbose", "-v"], negative="")] = False,
    target: Target = HERE,
) -> None:
    """Write each line of standard input to a topic as one record.

    A record with a key goes to the partition that Java's client would choose (murmur2); records without one go to one
    partition after another. The topic is created if the cluster allows it.

        echo hello | qanat produce greetings
        printf 'k1=v1' | qanat produce orders -k = -H source=shell
        qanat consume orders -e --json-envelope | qanat produce copy --json-envelope

    Parameters
    ----------
    topic:
        Its name.
    key_delimiter:
        The text between key and value on a line; a line without it has no key.
    key:
        The same key for every record.
    headers:
        A header of every record: -H name=value, as often as needed.
    partition:
        This partition for every record.
    compression:
        Codec of the batches. Default: none.
    acks:
        Which replicas acknowledge a record: all in-sync ones (the default), 1 the leader, 0 none.
    null:
        An empty value is a tombstone.
    json_envelope:
        Lines are those that `qanat consume --json-envelope` writes: with key, value, headers and timestamp.
    keep_partition:
        With --json-envelope, use the partition of the line as well.
    verbose:
        Print the offsets of the records on stderr.
    """
    if key is not None and key_delimiter is not None:
        raise WrongArgumentError("give --key or --key-delimiter, not both")
    if key_delimiter == "":
        raise WrongArgumentError("--key-delimiter must not be empty")
    reading = LineParser(
        key_delimiter.encode() if key_delimiter is not None else None,
        key.encode() if key is not None else None,
        tuple(_header(text) for text in headers or ()),
        is_null=null,
        is_envelope=json_envelope,
    )

    settings = target.resolved().settings
    codec, level = Codec[(compression or settings.compression).upper()], _ACKS[acks or settings.acks]
    if sys.stdin is None:
        raise WrongArgumentError("standard input is closed: there is nothing to read")
    _invite()

    async def work(cluster: Cluster) -> None:
        view = await cluster.topic(topic, cluster.deadline(), may_create=True)
        if partition is not None and partition not in view.leaders:
            raise WrongArgumentError(f"topic {topic} has no partition {partition}: it has 0 to {len(view.leaders) - 1}")
        partitioner = Partitioner(len(view.leaders), partition, keep_partition)
        sender = RecordSender(cluster, topic, codec, level, verbose)
        limit = LineLimit() if codec is not Codec.NONE else await line_limit(cluster, topic, is_envelope=json_envelope)
        with byte_progress(f"to {topic}", size_of(STDIN)) as report_progress:
            await sender.send_all(read_lines(limit), reading, partitioner, report_progress)

    run(target, work)


def _invite() -> None:
    """Tell a user at a terminal that the command waits for lines."""
    if sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty():
        print("One record per line; end with Ctrl-D.", file=sys.stderr)


def _header(text: str) -> tuple[str, bytes | None]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise WrongArgumentError(f"--header {text} should read name=value")
    return name, value.encode()
