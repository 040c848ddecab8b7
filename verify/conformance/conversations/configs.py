"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: settings of topics and brokers."""

from __future__ import annotations

from collections.abc import Sequence

from qanat.wire.kafka.messages import alter_configs as old
from qanat.wire.kafka.messages import incremental_alter_configs as incremental
from qanat.wire.kafka.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.play import Play
from verify.conformance.script import conversation, make_topic

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
DESCRIBE, ALTER, CHANGE = ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS
SOME = ["retention.ms", "cleanup.policy", "max.message.bytes", "min.insync.replicas", "compression.type"]


def _describe(
    name: str, keys: Sequence[str] | None, kind: int = TOPIC, *, more: bool = False
) -> DescribeConfigsRequest:
    asked = None if keys is None else list(keys)
    return DescribeConfigsRequest([DescribeConfigsResource(kind, name, asked)], more, more)


@conversation
def describe_configs_in_every_version(play: Play) -> None:
    name = make_topic(play, retention_ms="123456")
    for version in play.versions(DESCRIBE):
        play.exchange(DESCRIBE, version, _describe(name, SOME), "some")
        play.exchange(DESCRIBE, version, _describe(name, SOME, more=True), "some, with synonyms and documentation")
        play.exchange(DESCRIBE, version, _describe(name, ["bogus"]), "an unknown setting")
        play.exchange(DESCRIBE, version, _describe(name, []), "an empty list of them")
        play.exchange(DESCRIBE, version, _describe(f"{name}-absent", SOME), "an absent topic")
        play.exchange(DESCRIBE, version, _describe("a b", SOME), "a name that cannot be")
        play.exchange(DESCRIBE, version, _describe("", SOME), "an empty name")
        for broker in ("1", "", "77", "x"):
            play.exchange(
                DESCRIBE, version, _describe(broker, ["auto.create.topics.enable"], BROKER), f"broker {broker!r}"
            )
        for kind in (0, 3, 99):
            play.exchange(DESCRIBE, version, _describe(name, SOME, kind), f"kind {kind}", on=f"{kind} v{version}")


@conversation
def describe_all_configs_of_a_topic(play: Play) -> None:
    name = make_topic(play)
    play.exchange(DESCRIBE, 4, _describe(name, None), "everything")
    play.exchange(DESCRIBE, 4, _describe(name, None, more=True), "everything, with synonyms and documentation")


def _changes(*rows: tuple[str, int, str | None]) -> list[incremental.AlterableConfig]:
    return [incremental.AlterableConfig(*row) for row in rows]


def _change(
    play: Play, note: str, name: str, *rows: tuple[str, int, str | None], version: int = 1, kind: int = TOPIC
) -> None:
    resource = incremental.AlterConfigsResource(kind, name, _changes(*rows))
    request = incremental.IncrementalAlterConfigsRequest([resource], False)
    play.exchange(CHANGE, version, request, note, on=f"{note} v{version}")


@conversation
def change_configs_in_every_version(play: Play) -> None:
    for version in play.versions(CHANGE):
        name = make_topic(play, f"v{version}", retention_ms="5000")
        acts: dict[str, list[tuple[str, int, str | None]]] = {
            "set": [("retention.ms", SET, "1000")],
            "set two": [("segment.bytes", SET, "1048576"), ("retention.bytes", SET, "77")],
            "delete": [("retention.ms", DELETE, None)],
            "delete what is not set": [("flush.ms", DELETE, None)],
            "append": [("cleanup.policy", APPEND, "compact")],
            "append again": [("cleanup.policy", APPEND, "compact")],
            "subtract": [("cleanup.policy", SUBTRACT, "delete")],
            "subtract what is not there": [("cleanup.policy", SUBTRACT, "delete")],
            "append to a number": [("retention.ms", APPEND, "5")],
            "an unknown setting": [("bogus", SET, "1")],
            "a bad number": [("retention.ms", SET, "soon")],
            "a bad choice": [("cleanup.policy", SET, "burn")],
            "null": [("retention.ms", SET, None)],
            "the same twice": [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
            "an unknown act": [("retention.ms", 9, "1")],
            "one of two is bad": [("retention.ms", SET, "4000"), ("retention.bytes", SET, "x")],
            "nothing": [],
        }
        for note, rows in acts.items():
            _change(play, note, name, *rows, version=version)
        _change(play, "an absent topic", f"{name}-absent", ("retention.ms", SET, "1"), version=version)
        _change(play, "an empty name", "", ("retention.ms", SET, "1"), version=version)
        _change(play, "a name that cannot be", "a b", ("retention.ms", SET, "1"), version=version)
        for kind in (0, 3, 99):
            _change(play, f"kind {kind}", name, ("retention.ms", SET, "1"), version=version, kind=kind)
        for broker in ("77", "x"):
            _change(play, f"broker {broker}", broker, ("log.retention.ms", SET, "1"), version=version, kind=BROKER)
        keys = ["retention.ms", "retention.bytes", "cleanup.policy", "segment.bytes", "flush.ms"]
        _settled(play, name, "retention.bytes", "77")
        play.exchange(DESCRIBE, 4, _describe(name, keys), "what is set now")


@conversation
def change_configs_of_two(play: Play) -> None:
    first, second = make_topic(play, "first"), make_topic(play, "second")
    for version in play.versions(CHANGE):
        good = incremental.AlterConfigsResource(TOPIC, first, _changes(("retention.ms", SET, "11")))
        bad = incremental.AlterConfigsResource(TOPIC, second, _changes(("retention.ms", SET, "soon")))
        dry = incremental.AlterConfigsResource(TOPIC, second, _changes(("retention.ms", SET, "12")))
        play.exchange(CHANGE, version, incremental.IncrementalAlterConfigsRequest([good, bad], False), "one is bad")
        play.exchange(CHANGE, version, incremental.IncrementalAlterConfigsRequest([dry, bad], True), "only validated")
        play.exchange(
            CHANGE, version, incremental.IncrementalAlterConfigsRequest([good, good], False), "the same twice"
        )
        play.exchange(CHANGE, version, incremental.IncrementalAlterConfigsRequest([], False), "none")
    _settled(play, first, "retention.ms", "11")
    for name in (first, second):
        play.exchange(DESCRIBE, 4, _describe(name, ["retention.ms"]), f"{name[-6:]} now")


@conversation
def alter_configs_in_every_version(play: Play) -> None:
    for version in play.versions(ALTER):
        name = make_topic(play, f"v{version}", retention_bytes="5000")

        def exchange(
            note: str, topic: str, *rows: tuple[str, str | None], version: int = version, dry: bool = False
        ) -> None:
            resource = old.AlterConfigsResource(TOPIC, topic, [old.AlterableConfig(*row) for row in rows])
            request = old.AlterConfigsRequest([resource], dry)
            play.exchange(ALTER, version, request, note, on=f"{note} v{version}")

        exchange("set", name, ("retention.ms", "1000"))
        exchange("only validated", name, ("retention.ms", "2000"), dry=True)
        exchange("an unknown setting", name, ("bogus", "1"))
        exchange("a bad number", name, ("retention.ms", "soon"))
        exchange("null", name, ("retention.ms", None))
        exchange("the same twice", name, ("retention.ms", "1"), ("retention.ms", "2"))
        exchange("an absent topic", f"{name}-absent", ("retention.ms", "1"))
        exchange("an empty name", "", ("retention.ms", "1"))
        _settled(play, name, "retention.ms", "1000")
        play.exchange(DESCRIBE, 4, _describe(name, ["retention.ms", "retention.bytes"]), "what is set now")


def _settled(play: Play, name: str, key: str, value: str) -> None:
    """Wait until the broker that answers knows a change."""

    def is_known() -> bool:
        configs = play.quietly(DESCRIBE, 4, _describe(name, [key])).results[0].configs
        return bool(configs and configs[0].value == value)

    play.until(is_known)
