"""A broker in a process of its own, for measurements of clients."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator

_PROGRAM = """
import sys
from qanat.testing import EmbeddedBroker
with EmbeddedBroker(data_dir=sys.argv[1]) as broker:
    for topic in sys.argv[2:]:
        broker.create_topic(topic, partitions=4)
    print(broker.bootstrap_servers, flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def running(*topics: str) -> Iterator[str]:
    """A broker on the disk, with these topics of 4 partitions; yields its address."""
    with tempfile.TemporaryDirectory(prefix="qanat-bench-") as folder:
        command = [sys.executable, "-c", _PROGRAM, folder, *topics]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            try:
                yield process.stdout.readline().strip()
            finally:
                process.stdin.close()
                process.wait(60)
