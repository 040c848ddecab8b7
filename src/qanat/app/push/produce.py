"""`qanat push produce`: write lines of standard input over the push protocol."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.target import HERE, Target
from qanat.app.push.connecting import client_settings
from qanat.client.push.producers import AsyncPushProducer


def produce(
    topic: str,
    /,
    *,
    key_delimiter: Annotated[str | None, Parameter(name=["--key-delimiter", "-k"], allow_leading_hyphen=True)] = None,
    partition: Annotated[int | None, Parameter(name=["--partition", "-p"])] = None,
    target: Target = HERE,
) -> None:
    """Write each line of standard input as one record; it ends when all are durable.

        echo 182.30 | qanat push produce prices
        printf 'AAPL=182.30' | qanat push produce prices -k =

    Parameters
    ----------
    topic:
        Its name.
    key_delimiter:
        The text between key and value on a line; a line without it has no key.
    partition:
        The partition of all records; by default the key decides.
    """

    async def written() -> None:
        async with AsyncPushProducer(client_settings(target), client_id="qanat push produce") as producer:
            sent = []
            for line in sys.stdin.buffer:
                value = line.rstrip(b"\r\n")
                key = None
                if key_delimiter is not None:
                    first, found, rest = value.partition(key_delimiter.encode())
                    key, value = (first, rest) if found else (None, value)
                sent.append(await producer.send(topic, value, key=key, partition=partition))
            for one in sent:
                await one

    asyncio.run(written())
