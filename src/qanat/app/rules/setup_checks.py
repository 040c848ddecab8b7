"""Checks of a set-up beyond its security: replicas, the shared store, durability, how topics come to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from qanat.app.rules.finding import Finding
from qanat.app.rules.sqlite_checks import check_sqlite
from qanat.app.settings.metadata_settings import MetadataSettings
from qanat.app.settings.node_settings import NodeSettings
from qanat.cluster.host_defaults import HOSTS_MIN, IN_SYNC, MIN_IN_SYNC, REPLICAS
from qanat.log.settings import LogSettings

_LOOPBACK = ("127.", "localhost", "[::1]")
_FLUSH = ("flush.messages", "flush.ms")


def check_shared_store(settings: NodeSettings, hosts: int) -> Finding:
    """Whether all brokers can share the metadata store."""
    if settings.metadata.metadata_store == "etcd":
        return Finding("shared store", "ok", "etcd")
    if settings.storage_engine == "memory":
        return Finding("shared store", "ok", "in memory, for one broker")
    if hosts > 1:
        advice = "-X metadata.store=etcd -X metadata.etcd.endpoints=https://etcd-1:2379"
        return Finding("shared store", "fail", f"brokers of {hosts} hosts share an SQLite file", advice)
    folder = Path(settings.data_dir).absolute()
    found = check_sqlite(next(one for one in (folder, *folder.parents) if one.is_dir()))
    if found.status == "fail":
        return Finding("shared store", "fail", found.seen, found.advice)
    return Finding("shared store", "ok", "SQLite, on one host")


def check_store_encryption(settings: MetadataSettings) -> Finding:
    """Whether metadata, verifiers of passwords among it, leaves this machine unencrypted."""
    if settings.metadata_store != "etcd":
        return Finding("store encryption", "ok", "SQLite, on this machine")
    from qanat.adapters.etcd_endpoints import parse_endpoints

    has_tls = any((settings.metadata_etcd_tls_ca_file, settings.metadata_etcd_tls_certificate_file))
    endpoints = parse_endpoints(settings.metadata_etcd_endpoints, is_tls=has_tls)
    plain = [str(one) for one in endpoints if not one.is_tls and not str(one).startswith(_LOOPBACK)]
    if plain:
        advice = "-X metadata.etcd.endpoints=https://… -X metadata.etcd.tls.ca.file=FILE"
        return Finding("store encryption", "warn", f"etcd at {', '.join(plain)} is not encrypted", advice)
    return Finding("store encryption", "ok", "TLS" if any(one.is_tls for one in endpoints) else "on this machine")


def check_replication(settings: NodeSettings, hosts: int) -> Finding:
    """Whether topics survive the loss of a host, where the cluster has several."""
    is_several = settings.metadata.metadata_store == "etcd" or hosts >= HOSTS_MIN
    if not is_several:
        return Finding("replication", "ok", "one host")
    few = [f"-X {name}={wanted}" for name, number, wanted in _numbers(settings) if number < wanted]
    if few:
        seen = f"fewer than {REPLICAS} replicas or {IN_SYNC} in sync, on several hosts"
        return Finding("replication", "warn", seen, " ".join(few))
    return Finding("replication", "ok", f"{REPLICAS} replicas, {IN_SYNC} in sync")


def _numbers(settings: NodeSettings) -> Iterator[tuple[str, int, int]]:
    told = settings.broker.default_replication_factor
    yield "default.replication.factor", REPLICAS if told is None else told, REPLICAS
    yield "offsets.topic.replication.factor", settings.groups.offsets_topic_replication_factor, REPLICAS
    name = "transaction.state.log.replication.factor"
    yield name, settings.transactions.transaction_state_log_replication_factor, REPLICAS
    name = "share.coordinator.state.topic.replication.factor"
    yield name, settings.groups.share_coordinator_state_topic_replication_factor, REPLICAS
    yield MIN_IN_SYNC, int(settings.topic_defaults.get(MIN_IN_SYNC, IN_SYNC)), IN_SYNC


def check_durability(settings: NodeSettings) -> Finding:
    """Whether an acknowledged record is on disk."""
    if settings.storage_engine == "memory":
        return Finding("durability", "warn", "records are in memory and lost at the end", "-X storage.engine=file")
    log = LogSettings.parse({name: text for name, text in settings.topic_defaults.items() if name in _FLUSH})
    if not log.is_synced:
        advice = "-X log.flush.interval.messages=1"
        return Finding("durability", "warn", "records are acknowledged before they are on disk", advice)
    return Finding("durability", "ok", "acks=all is answered once records are on disk")


def check_elections(topic_defaults: Mapping[str, str]) -> Finding:
    """Whether a replica that lacks records may lead."""
    if topic_defaults.get("unclean.leader.election.enable") == "true":
        advice = "-X unclean.leader.election.enable=false; for one topic: qanat topic alter"
        return Finding("elections", "warn", "a replica that lacks acknowledged records may lead", advice)
    return Finding("elections", "ok", "only replicas in sync lead")


def check_topic_creation(settings: NodeSettings) -> Finding:
    """Whether a misspelled name makes a topic."""
    if settings.broker.auto_create_topics_enable and settings.environment != "dev":
        advice = "-X auto.create.topics.enable=false; then qanat topic create"
        return Finding("topic creation", "warn", "a misspelled name makes a topic", advice)
    return Finding(
        "topic creation", "ok", "by clients" if settings.broker.auto_create_topics_enable else "by operators"
    )
