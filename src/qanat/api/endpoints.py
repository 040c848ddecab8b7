"""The address of a broker for a caller: that of the listener which the caller came over."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qanat.api.caller import Caller
    from qanat.cluster.values import BrokerRegistration, Listener


def endpoint_of(registration: BrokerRegistration, caller: Caller | None) -> Listener | None:
    """The broker's listener of the same name; None where it has none, so that the caller could not reach it.

    A broker of an earlier version registered its listener under its protocol: that one is taken for it. Without a
    caller, a broker with several listeners has no address that is certainly right.
    """
    if caller is None:
        return registration.listeners[0] if len(registration.listeners) == 1 else None
    if caller.is_over_inter_broker:
        return registration.inter_broker
    listeners, name = registration.listeners, caller.listener_name
    if not listeners or not name or listeners[0].name == name:
        return listeners[0] if listeners else None
    found = next((one for one in listeners if one.name == name), None)
    return found or next((one for one in listeners if one.name == caller.listener_protocol), None)
