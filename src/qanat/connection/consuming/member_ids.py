"""Ids that members choose for themselves, in the protocols of KIP-848 and KIP-932."""

from __future__ import annotations

import base64
import os


def new_member_id() -> str:
    """A random UUID in Kafka's form: 22 characters of URL-safe base64 that do not begin with a dash."""
    while True:
        found = base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode()
        if not found.startswith("-"):
            return found
