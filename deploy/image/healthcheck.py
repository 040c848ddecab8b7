"""Whether the broker in this container is healthy: exit code 0 where `/health` answers 200 on loopback.

    python3 healthcheck.py                       for HEALTHCHECK
    python3 healthcheck.py wait-restartable 60   before the container is stopped: wait until writes go on without it

The certificate is not checked: it is that of this very container, and its name is for clients.
"""

from __future__ import annotations

import http.client
import os
import ssl
import sys
import time

TIMEOUT_S = 4
_PAUSE_S = 0.5


def status(port: int, path: str) -> int | None:
    """The status of an answer, by HTTP or HTTPS; None where nothing answers."""
    for connection in (
        http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S),
        http.client.HTTPSConnection("127.0.0.1", port, timeout=TIMEOUT_S, context=ssl._create_unverified_context()),
    ):
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            continue
        finally:
            connection.close()
    return None


def wait_restartable(port: int, seconds: float) -> bool:
    """Wait until this broker may be restarted, or does not answer; False where it took too long."""
    deadline = time.monotonic() + seconds
    while status(port, "/health/restartable") == 503:
        if time.monotonic() >= deadline:
            return False
        time.sleep(_PAUSE_S)
    return True


def main(arguments: list[str]) -> int:
    """The exit code of a command line."""
    port = int(os.environ.get("QANAT_HTTP_PORT") or os.environ.get("HTTP_PORT") or 8080)
    if arguments[:1] == ["wait-restartable"]:
        return 0 if wait_restartable(port, float(arguments[1])) else 1
    return 0 if status(port, "/health") == 200 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
