"""The broker as share groups see it: partitions, other brokers, and topics for dead letters."""

from __future__ import annotations

from typing import Protocol

from qanat.broker.coordinators.coordinator_host import CoordinatorHost
from qanat.broker.runtime.ack_timeouts import AckTimeouts
from qanat.broker.runtime.peers import Peers
from qanat.broker.settings.current_settings import CurrentSettings


class ShareHost(CoordinatorHost, Protocol):
    """What share partitions need of their broker."""

    @property
    def node_id(self) -> int: ...

    @property
    def peers(self) -> Peers: ...

    @property
    def ack_timeouts(self) -> AckTimeouts: ...

    @property
    def current_settings(self) -> CurrentSettings: ...
