"""The cast of a conversation about permissions: what its users ask for, and the loop over APIs, versions and users.

Every request names, where it can, a resource that may be used and one that may not, of those that exist and of those
that do not: an answer shows at once what is allowed and what it gives away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from qanat.security.acls import Acl
from qanat.wire.kafka.messages.create_acls import AclCreation, CreateAclsRequest
from qanat.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.play import Play
from verify.conformance.script import await_producer_ids, make_group, make_topic, topic_id
from verify.conformance.table import OF_LATER
from verify.conformance.users import USERS, rules_of

LAST_OF_4_1 = {
    ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.SHARE_FETCH: 1,
    ApiKey.SHARE_ACKNOWLEDGE: 1,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: 0,
}
"""The last version of Kafka 4.1, where Qanat serves later ones."""
NO_PRODUCER = 987_654
"""A producer id that no broker has drawn."""


@dataclass(frozen=True)
class Cast:
    """What requests name. Rules name `…-1` and `…-none`, or their prefix; nothing names the others."""

    topics: tuple[str, ...]
    """Two that may be used, of which the first exists, and two that may not, of which the first exists."""
    ids: tuple[bytes, ...]
    """The ids of the topics that exist, and one of no topic."""
    groups: tuple[str, ...]
    transactions: tuple[str, ...]


Request = tuple[str, Any]
"""A note, and the request."""
Make = Callable[[Cast, int], Any]
"""The request of a version, or several with notes."""


def prepared(play: Play) -> Cast:
    """Create the rules of all users and what requests name, without recording it."""
    creations = [creation_of(rule) for user in USERS for rule in rules_of(user, play.name)]
    results = play.quietly(ApiKey.CREATE_ACLS, 3, CreateAclsRequest(creations)).results
    assert not any(row.error_code for row in results), results
    open_topic, hidden = make_topic(play, "t-1"), make_topic(play, "hidden")
    make_group(play, "g-1")
    names = play.name
    _await_coordinators(play, f"{names}-x-1", f"{names}-g-1:{'A' * 22}:0")
    await_producer_ids(play)  # Draws the first, which is 0, and looks like none.
    ids = topic_id(play, open_topic), topic_id(play, hidden), b"\x07" * 16
    for one in ids:
        play.introduce("topic", one)
    play.introduce("producer", NO_PRODUCER)
    return Cast(
        topics=(open_topic, f"{names}-t-none", hidden, f"{names}-missing"),
        ids=ids,
        groups=(f"{names}-g-1", f"{names}-g-none", f"{names}-secret-g"),
        transactions=(f"{names}-x-1", f"{names}-x-none", f"{names}-secret-x"),
    )


def _await_coordinators(play: Play, transaction: str, share: str) -> None:
    """Wait for the coordinators of transactions and of share state, which a broker makes when they are asked for."""

    def are_found() -> bool:
        keys = ((1, transaction), (2, share))
        requests = [FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]) for kind, key in keys]
        answers = [play.quietly(ApiKey.FIND_COORDINATOR, 6, request) for request in requests]
        return not any(answer.coordinators[0].error_code for answer in answers)

    play.until(are_found)


def creation_of(rule: Acl) -> AclCreation:
    return AclCreation(
        int(rule.kind),
        rule.name,
        int(rule.pattern),
        rule.principal,
        rule.host,
        int(rule.operation),
        int(rule.permission),
    )


def ask_each(play: Play, cast: Cast, makers: dict[ApiKey, Make], users: Iterable[str] = USERS) -> None:
    """Ask for each API in each version as each user; of a later Kafka, in the versions that 4.1 lacks."""
    for key, make in makers.items():
        last = LAST_OF_4_1.get(key, 99)
        is_later = play.name.endswith(OF_LATER)
        for version in play.versions(key, first=last + 1) if is_later else play.versions(key, last=last):
            for user in users:
                for note, request in noted(make(cast, version)):
                    play.exchange(key, version, request, note, user)


def noted(made: Any) -> list[Request]:
    return made if isinstance(made, list) else [("", made)]
