"""Settings of push clients from a command's target."""

from __future__ import annotations

from qanat.app.client.target import Target


def client_settings(target: Target) -> dict[str, object]:
    """What `qanat.client` needs to reach the target."""
    return {"bootstrap.servers": target.address(), **target.protection()}
