"""Names of nodes: Kafka knows brokers by number, operators by name (`local-001`); the store maps names to numbers.

/qanat/node-names/<name>     `NodeName`: the name's number, assigned once and for ever
/qanat/node-names/#<number>  the reverse, so that no two names get one number
"""

from __future__ import annotations

import msgspec

from qanat.cluster import keys, values
from qanat.cluster.store import Absent, Committed, MetadataStore, Put
from qanat.model.errors import StoreUnavailableError

_FOLDER = keys.ROOT + "node-names/"
_FIRST = 1
"""Numbers of named nodes begin here: 0 is the default of a node without settings."""
_ATTEMPTS_MAX = 100


class NodeName(msgspec.Struct, frozen=True, kw_only=True):
    """A name and its number."""

    version: int = 1
    name: str
    node_id: int


async def number_of(store: MetadataStore, node_id: int | str) -> int:
    """The number of a node; a new name gets the lowest free one."""
    if isinstance(node_id, int):
        return node_id
    for _ in range(_ATTEMPTS_MAX):
        entry = await store.get(_FOLDER + node_id)
        if entry is not None:
            return values.decode(NodeName, entry.value).node_id
        number = await _free_number(store)
        value = values.encode(NodeName(name=node_id, node_id=number))
        key, reverse = _FOLDER + node_id, f"{_FOLDER}#{number}"
        result = await store.commit([Absent(key), Absent(reverse)], [Put(key, value), Put(reverse, value)])
        if isinstance(result, Committed):
            return number
    raise StoreUnavailableError(f"node {node_id} cannot get a number: other nodes took every one; start it again")


async def _free_number(store: MetadataStore) -> int:
    named = await store.list(_FOLDER)
    taken = {values.decode(NodeName, entry.value).node_id for entry in named.entries}
    registered = await store.list(keys.BROKERS)
    taken |= {int(name) for entry in registered.entries if (name := entry.key.removeprefix(keys.BROKERS)).isdigit()}
    return next(number for number in range(_FIRST, len(taken) + _FIRST + 1) if number not in taken)
