"""Ids that members choose for themselves, in the protocols of KIP-848 and KIP-932."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable

random_bytes: Callable[[int], bytes] = os.urandom
"""What ids are drawn from; tests of apps put a seeded source in its place."""


def new_member_id() -> str:
    """A random UUID in Kafka's form: 22 characters of URL-safe base64 that do not begin with a dash."""
    while True:
        found = base64.urlsafe_b64encode(random_bytes(16)).rstrip(b"=").decode()
        if not found.startswith("-"):
            return found
