"""No setting that clients may change can hold a URL, a path, a class or a command (CVE-2023-25194, CVE-2025-27817)."""

from __future__ import annotations

from collections.abc import Iterable

from tests.servers.kafka.admin_requests import BROKER, SET, TOPIC, change, create, describe, topic
from tests.servers.kafka.raw import RawClient

from qanat.app.settings.catalogue import SETTINGS
from qanat.broker.settings.dynamic_settings import DYNAMIC
from qanat.security.tls_settings import TlsSettings

GROUP = 32
EVIL = (
    "http://evil.example/keys",
    "file:///etc/passwd",
    "/etc/passwd",
    "../../etc/passwd",
    "com.sun.security.auth.module.JndiLoginModule",
    "evil.module:Class",
    "${command:touch /tmp/evil}",
    "${file:/etc/passwd}",
    "${env:HOME}",
)
OF_KAFKA = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.oauthbearer.token.endpoint.url",
    "metric.reporters",
    "log4j.configuration",
    "ssl.engine.factory.class",
    "remote.log.storage.manager.class.name",
    "listener.name.clients.sasl.jaas.config",
    "config.providers",
)
"""By which others were attacked."""
NAMES = {"consume.groups", "errors.deadletterqueue.topic.name", "up.target", "value.message", "value.schema"}
"""They hold names of groups, topics and messages, which may look like classes, and a schema itself, which is read only
where `value.format` says what it is: nothing is fetched or run by them."""
EVERY = sorted({*SETTINGS, *TlsSettings.__struct_encode_fields__, *OF_KAFKA})


def names_of(client: RawClient, kind: int, name: str) -> list[str]:
    return [one.name for one in describe(client, name, kind=kind).configs]


def taken(client: RawClient, kind: int, resource: str, settings: Iterable[str], values: Iterable[str]) -> set[str]:
    """The settings that take one of these values."""
    return {
        setting
        for setting in settings
        for value in values
        if change(client, resource, (setting, SET, value), kind=kind).error_code == 0
    }


def test_no_setting_of_a_broker_takes_what_could_be_fetched_read_or_run(client: RawClient) -> None:
    assert set(EVERY) >= DYNAMIC
    fixed = [setting for name in EVERY if name not in DYNAMIC for setting in (name, f"listener.name.clients.{name}")]

    for broker in ("1", ""):
        assert taken(client, BROKER, broker, DYNAMIC, EVIL) == NAMES & DYNAMIC
        assert taken(client, BROKER, broker, fixed, EVIL[:1]) == set()


def test_no_setting_of_a_topic_takes_what_could_be_fetched_read_or_run(client: RawClient) -> None:
    create(client, topic("orders"))
    names = names_of(client, TOPIC, "orders")
    assert "retention.ms" in names

    assert taken(client, TOPIC, "orders", names, EVIL) == NAMES & set(names)
    assert taken(client, TOPIC, "orders", set(EVERY) - set(names), EVIL[:1]) == set()


def test_no_setting_of_a_group_takes_what_could_be_fetched_read_or_run(client: RawClient) -> None:
    names = names_of(client, GROUP, "readers")
    assert "consumer.session.timeout.ms" in names

    assert taken(client, GROUP, "readers", names, EVIL) == NAMES & set(names)
    assert taken(client, GROUP, "readers", set(EVERY) - set(names), EVIL[:1]) == set()
