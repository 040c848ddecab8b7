"""A server that closes every connection at once: the least that a guess can cost anyone.

    python -m bench.protected.sink

Prints its port, and ends with its standard input.
"""

from __future__ import annotations

import os
import socket
import sys
import threading


def main() -> None:
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    threading.Thread(target=_end_with_input, daemon=True).start()
    print(listening.getsockname()[1], flush=True)
    while True:
        listening.accept()[0].close()


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
