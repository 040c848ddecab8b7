"""Other brokers are found by their registration."""

from __future__ import annotations

import msgspec
import pytest
from tests.cluster.images import apply, image_with, registration

from qanat.broker.runtime.peers import Peers
from qanat.cluster import keys, values
from qanat.cluster.store import Put
from qanat.connection.faults import UnreachableError


def test_a_broker_listens_for_brokers_where_its_registration_says() -> None:
    image = image_with((0,))
    listener = values.Listener(name="INTERNAL", host="there", port=19092)
    apply(image, [Put(keys.broker(1), values.encode(msgspec.structs.replace(registration(1), inter_broker=listener)))])

    assert Peers(0, image).address_of(1) == ("there", 19092)


@pytest.mark.parametrize("node_id", [0, 7])
def test_a_broker_without_such_a_listener_or_registration_cannot_be_reached(node_id: int) -> None:
    with pytest.raises(UnreachableError, match=f"broker {node_id} is not registered"):
        Peers(1, image_with((0,))).address_of(node_id)
