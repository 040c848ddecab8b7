"""Does a registry answer? Asked once in a process, and never for longer than three seconds.

A machine without a network must not wait a minute for each package that it will not get.
"""

from __future__ import annotations

import functools
import os
import threading
import urllib.error
import urllib.request
from urllib.parse import urlsplit

LIMIT_SECONDS = 3.0
DEBIAN = "https://deb.debian.org/debian/"
GO_PROXY = "https://proxy.golang.org"
MAVEN = "https://repo.maven.apache.org/maven2/"
NPM = "https://registry.npmjs.org/"


class MissingToolError(Exception):
    """Something is neither here nor to be had; the message says why in one sentence."""


def need(url: str, what: str) -> None:
    """Return where the registry answers; raises `MissingToolError` in three seconds where it does not."""
    need_permission(what)
    if not answers(url):
        host = urlsplit(url).netloc
        raise MissingToolError(
            f"{host} does not answer within {LIMIT_SECONDS:.0f} seconds, so {what} cannot be fetched"
        )


def need_permission(what: str) -> None:
    """Return where fetching is allowed; raises `MissingToolError`."""
    if os.environ.get("QANAT_OFFLINE") == "1":
        raise MissingToolError(f"QANAT_OFFLINE=1 forbids to fetch {what}")


@functools.cache
def answers(url: str) -> bool:
    """Whether an HTTP server answers there, with whatever status below 500."""
    seen: list[bool] = []
    # A thread, because no time limit of a socket covers the resolver.
    asking = threading.Thread(target=lambda: seen.append(_ask(url)), daemon=True)
    asking.start()
    asking.join(LIMIT_SECONDS)
    return bool(seen) and seen[0]


def _ask(url: str) -> bool:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=LIMIT_SECONDS):
            return True
    except urllib.error.HTTPError as refusal:
        return refusal.code < 500
    except OSError:
        return False
