"""kill -9 in the middle of changes of ACLs: what was acknowledged stays, what was not is there as a whole or not at all
(CVE-2024-27309: rules that were lost)."""

from __future__ import annotations

import contextlib
import threading
from itertools import count
from pathlib import Path
from random import Random

import pytest
from tests.app.processes import TIMEOUT_SECONDS, running_broker
from tests.servers.kafka.raw import RawClient

from qanat.app.doctor.stored_security import read_stored
from qanat.app.settings.loading import flag, load
from qanat.wire.kafka.messages.create_acls import AclCreation, CreateAclsRequest
from qanat.wire.kafka.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from qanat.wire.kafka.messages.describe_acls import DescribeAclsRequest
from qanat.wire.kafka.registry import ApiKey

TOPIC, LITERAL, READ, ALLOW, ANY = 2, 3, 3, 3, 1
GROUP_SIZE = 5
"""Rules in one request."""
ROUNDS = 3


class Rules:
    """Rules of topics `<group>-<number>`, made and deleted a group at a time, and what was acknowledged of that."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, bool] = {}
        """Whether a group has its rules."""
        self.in_doubt: str | None = None

    def work(self, address: str, random: Random, goal: int, enough: threading.Event) -> None:
        """Change groups until the broker is gone; tell when there were so many changes."""
        with contextlib.suppress(OSError, EOFError), RawClient(address) as client:
            for number in count():
                if number == goal:
                    enough.set()
                self._step(client, random)

    def _step(self, client: RawClient, random: Random) -> None:
        group = f"group{random.randrange(20)}"
        self.in_doubt = group
        if self.acknowledged.get(group):
            filters = [DeleteAclsFilter(TOPIC, name, LITERAL, None, None, ANY, ANY) for name in names(group)]
            answer = client.ask(ApiKey.DELETE_ACLS, 2, DeleteAclsRequest(filters))
            codes = [one.error_code for one in answer.filter_results]
        else:
            rules = [AclCreation(TOPIC, name, LITERAL, "User:alice", "*", READ, ALLOW) for name in names(group)]
            codes = [one.error_code for one in client.ask(ApiKey.CREATE_ACLS, 2, CreateAclsRequest(rules)).results]
        assert codes == [0] * GROUP_SIZE
        self.acknowledged[group] = not self.acknowledged.get(group)
        self.in_doubt = None


def names(group: str) -> list[str]:
    return [f"{group}-{number}" for number in range(GROUP_SIZE)]


def described(address: str) -> set[str]:
    """The topics that have a rule, as the broker says."""
    with RawClient(address) as client:
        answer = client.ask(ApiKey.DESCRIBE_ACLS, 2, DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY))
    return {one.resource_name for one in answer.resources}


def stored(data: Path) -> set[str]:
    return {rule.name for rule in read_stored(load([flag("data.dir", str(data), "x")], None, {}).settings).acls}


@pytest.mark.parametrize("seed", [1])
def test_no_acknowledged_rule_is_lost_and_no_deleted_one_comes_back(tmp_path: Path, seed: int) -> None:
    random, rules, data = Random(seed), Rules(), tmp_path / "data"
    settings = ("authorizer.class.name=StandardAuthorizer", "super.users=User:ANONYMOUS")
    words = ["--port", "0", "--data-dir", str(data), *(word for one in settings for word in ("-X", one))]
    for _ in range(ROUNDS):
        with running_broker(tmp_path, *words) as broker:
            found = described(broker.address)
            assert found == stored(data)
            check(rules, found)
            enough = threading.Event()
            goal = random.randrange(10, 40)
            worker = threading.Thread(target=rules.work, args=(broker.address, random, goal, enough))
            worker.start()
            assert enough.wait(TIMEOUT_SECONDS)
            broker.process.kill()
            broker.process.wait()
            worker.join()


def check(rules: Rules, found: set[str]) -> None:
    """Compare; what was in doubt is settled by what is there."""
    if rules.in_doubt is not None:
        there = found & set(names(rules.in_doubt))
        assert len(there) in (0, GROUP_SIZE), "a request is one commit"
        rules.acknowledged[rules.in_doubt] = bool(there)
        rules.in_doubt = None
    assert found == {name for group, is_there in rules.acknowledged.items() if is_there for name in names(group)}
