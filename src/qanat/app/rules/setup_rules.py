"""The rules of a set-up, in one table: `qanat doctor` grades by them, and environments refuse or warn by them.

Rule 1: a rule looks at settings, listeners and hosts; no broker need run, so `qanat config check` knows it as well.
Rule 2: what is graded is refused in production, unless `refused` says which grades are. Each finding has its remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from qanat.app.rules import security_checks as security
from qanat.app.rules import setup_checks as beyond
from qanat.app.rules.finding import Finding, Status
from qanat.app.settings.listener_plan import ListenerPlan
from qanat.app.settings.node_settings import NodeSettings
from qanat.app.settings.source_value import SourceValue
from qanat.model.errors import InvalidSettingError


@dataclass(frozen=True, slots=True)
class Setup:
    """What rules look at."""

    settings: NodeSettings
    plan: ListenerPlan
    hosts: int = 1
    """How many hosts the running brokers have, as far as that is known."""
    has_users: bool = False

    @property
    def folder(self) -> Path:
        return Path(self.settings.data_dir)


class Rule(NamedTuple):
    """A check, the settings that it is about, and the grades that production refuses."""

    check: Callable[[Setup], Finding]
    settings: tuple[str, ...]
    refused: tuple[Status, ...] = ("warn", "fail")


_NEVER: tuple[Status, ...] = ()
_WORST: tuple[Status, ...] = ("fail",)

RULES: tuple[Rule, ...] = (
    Rule(
        lambda one: security.check_listeners(one.plan),
        ("allow.unauthenticated.clients", "listeners", "listener.security.protocol", "http.security.protocol"),
    ),
    # A plain listener on loopback is let be: it serves this machine, and the authorizer decides.
    Rule(lambda one: security.check_authentication(one.plan), ("listener.security.protocol",), _NEVER),
    Rule(
        lambda one: security.check_authorizer(
            one.plan, one.settings.security, is_needed=one.settings.environment != "dev"
        ),
        ("authorizer.class.name", "allow.everyone.if.no.acl.found", "authorizer.dry.run"),
    ),
    Rule(lambda one: security.check_super_users(one.settings.security), ("super.users",), _WORST),
    Rule(
        lambda one: security.check_login_limits(one.plan, one.settings.security),
        ("login.failures.per.user", "login.failures.per.address"),
    ),
    Rule(
        lambda one: security.check_files(one.plan, one.folder, has_users=one.has_users),
        ("ssl.keystore.location", "sasl.plain.credentials.file", "inter.broker.credentials.file"),
        _WORST,
    ),
    # A certificate that expires while the broker runs is an event; a broker that restarts then must not stay down.
    Rule(lambda one: security.check_certificates(one.plan, one.folder), ("ssl.keystore.location",), _NEVER),
    Rule(lambda one: beyond.check_shared_store(one.settings, one.hosts), ("metadata.store",)),
    Rule(lambda one: beyond.check_store_encryption(one.settings.metadata), ("metadata.etcd.endpoints",)),
    Rule(
        lambda one: beyond.check_replication(one.settings, one.hosts),
        (
            "default.replication.factor",
            "min.insync.replicas",
            "offsets.topic.replication.factor",
            "transaction.state.log.replication.factor",
            "share.coordinator.state.topic.replication.factor",
        ),
    ),
    Rule(lambda one: beyond.check_durability(one.settings), ("storage.engine", "log.flush.interval.messages")),
    Rule(lambda one: beyond.check_elections(one.settings.topic_defaults), ("unclean.leader.election.enable",)),
    Rule(lambda one: beyond.check_topic_creation(one.settings), ("auto.create.topics.enable",)),
)


def refusals(setup: Setup, values: Mapping[str, SourceValue]) -> Iterator[str]:
    """What production refuses of a set-up, each as one sentence with its remedy; `values` say where settings stand."""
    for rule in RULES:
        finding = rule.check(setup)
        if finding.status in rule.refused:
            places = [f"{name}, {values[name].origin}" for name in rule.settings if name in values]
            where = f" ({'; '.join(places)})" if places else ""
            yield f"{finding.check}: {finding.seen}{where}; do: {finding.advice}"


def require_fit(setup: Setup, values: Mapping[str, SourceValue], warn: Callable[[str], None]) -> None:
    """Refuse in production what is unsafe, and warn of it in staging; raises `InvalidSettingError`."""
    found = [] if setup.settings.environment == "dev" else list(refusals(setup, values))
    if setup.settings.environment == "staging":
        for one in found:
            warn(f"production would refuse this: {one}")
    elif found:
        more = f" (and {len(found) - 1} more: qanat config check shows all)" if len(found) > 1 else ""
        raise InvalidSettingError(f"production refuses to start: {found[0]}{more}")
