"""A broker's address for a caller is that of the caller's own listener, also for brokers of an earlier version."""

from __future__ import annotations

import msgspec
import pytest
from tests.cluster.images import registration

from qanat.api.endpoints import endpoint_of
from qanat.cluster import values
from qanat.cluster.values import BrokerRegistration, Listener
from qanat.servers.http.caller import HttpCaller


def listener(name: str, port: int, protocol: str = "PLAINTEXT") -> Listener:
    return Listener(name=name, host="h", port=port, security_protocol=protocol)


BETWEEN = listener("INTERNAL", 19092)
BOTH = msgspec.structs.replace(
    registration(1),
    listeners=(listener("LOCAL", 1), listener("CLIENTS", 2, "SASL_SSL")),
    inter_broker=BETWEEN,
)
EARLIER = msgspec.structs.replace(registration(2), listeners=(listener("SASL_SSL", 3, "SASL_SSL"),))


def caller(name: str, protocol: str = "PLAINTEXT", *, is_over_inter_broker: bool = False) -> HttpCaller:
    made = HttpCaller(None)
    made.listener_name, made.listener_protocol, made.is_over_inter_broker = name, protocol, is_over_inter_broker
    return made


@pytest.mark.parametrize(
    ("broker", "client", "port"),
    [
        (BOTH, caller("LOCAL"), 1),
        (BOTH, caller("CLIENTS", "SASL_SSL"), 2),
        (BOTH, caller("OTHER", "SSL"), None),
        (BOTH, caller(""), 1),
        (BOTH, None, None),
        (BOTH, caller("INTERNAL", is_over_inter_broker=True), 19092),
        (EARLIER, caller("CLIENTS", "SASL_SSL"), 3),
        (EARLIER, caller("LOCAL"), None),
        (EARLIER, None, 3),
        (EARLIER, caller("INTERNAL", is_over_inter_broker=True), None),
    ],
)
def test_the_address_is_that_of_the_callers_listener(
    broker: BrokerRegistration, client: HttpCaller | None, port: int | None
) -> None:
    found = endpoint_of(broker, client)

    assert (None if found is None else found.port) == port


def test_a_registration_with_several_listeners_is_read_by_the_first_one_in_earlier_versions() -> None:
    """Brokers of both versions run side by side: the form of the value is the same, the first listener counts."""
    again = values.decode(BrokerRegistration, values.encode(BOTH))

    assert again == BOTH
    assert again.version == 1
    earlier = b'{"version":1,"node_id":7,"incarnation":"x","listeners":[{"name":"PLAINTEXT","host":"h","port":1}]}'
    read = values.decode(BrokerRegistration, earlier)
    assert (read.listeners[0].security_protocol, read.inter_broker) == ("PLAINTEXT", None)
