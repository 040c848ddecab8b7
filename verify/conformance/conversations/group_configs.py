"""Settings of single groups: described, changed, refused, forgotten; whether or not there is such a group."""

from __future__ import annotations

from qanat.wire.kafka.messages import alter_configs as old
from qanat.wire.kafka.messages import incremental_alter_configs as incremental
from qanat.wire.kafka.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.play import Play
from verify.conformance.script import conversation

GROUP = 32
SET, DELETE, APPEND = 0, 1, 2
DESCRIBE, ALTER, CHANGE = ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS
LOCK, RESET, SESSION = "share.record.lock.duration.ms", "share.auto.offset.reset", "consumer.session.timeout.ms"


def _describe(group: str, *settings: str) -> DescribeConfigsRequest:
    names = list(settings) if settings else None
    return DescribeConfigsRequest([DescribeConfigsResource(GROUP, group, names)], True, True)


def _change(
    play: Play, note: str, group: str, *rows: tuple[str, int, str | None], version: int = 1, is_dry: bool = False
) -> None:
    configs = [incremental.AlterableConfig(*row) for row in rows]
    resource = incremental.AlterConfigsResource(GROUP, group, configs)
    play.exchange(CHANGE, version, incremental.IncrementalAlterConfigsRequest([resource], is_dry), note)


def _settled(play: Play, group: str, setting: str, value: str) -> None:
    """Wait until the broker that answers knows a change."""

    def is_known() -> bool:
        configs = play.quietly(DESCRIBE, 4, _describe(group, setting)).results[0].configs
        return bool(configs and configs[0].value == value)

    play.until(is_known)


@conversation
def configs_of_groups(play: Play) -> None:
    group = f"{play.name}-g"
    play.exchange(DESCRIBE, 4, _describe(group), "of a group that is not there")
    play.exchange(DESCRIBE, 4, _describe(""), "of no group")
    play.exchange(DESCRIBE, 4, _describe(group, LOCK, "odd"), "two of them, one unknown")
    for version in play.versions(CHANGE):
        _change(play, "some", group, (LOCK, SET, "20000"), (RESET, SET, "earliest"), version=version)
        _settled(play, group, RESET, "earliest")
        play.exchange(DESCRIBE, 4, _describe(group, LOCK, RESET, SESSION), f"what is set now ({version})")
        _change(play, "one is forgotten", group, (RESET, DELETE, None), version=version)
        _settled(play, group, RESET, "latest")
    play.exchange(DESCRIBE, 4, _describe(group, LOCK, RESET), "what is still set")
    _change(play, "none", group)
    _change(play, "only validated", group, (LOCK, SET, "25000"), is_dry=True)
    for version in play.versions(DESCRIBE):
        play.exchange(DESCRIBE, version, _describe(group, LOCK), "in every version")


@conversation
def configs_of_groups_refused(play: Play) -> None:
    group = f"{play.name}-g"
    wrong: dict[str, list[tuple[str, int, str | None]]] = {
        "an unknown setting": [("odd", SET, "1")],
        "a topic's setting": [("retention.ms", SET, "1")],
        "a bad number": [(LOCK, SET, "soon")],
        "a lock that is too short": [(LOCK, SET, "1000")],
        "a lock that is too long": [(LOCK, SET, "70000")],
        "a session that is too short": [(SESSION, SET, "1000")],
        "a session that is too long": [("share.session.timeout.ms", SET, "70000")],
        "heartbeats that are too frequent": [("share.heartbeat.interval.ms", SET, "1000")],
        "heartbeats that are too rare": [("consumer.heartbeat.interval.ms", SET, "20000")],
        "a reset that is none": [(RESET, SET, "soon")],
        "a reset by duration": [(RESET, SET, "by_duration:PT1H")],
        "a reset by a duration that is none": [(RESET, SET, "by_duration:1h")],
        "an isolation level that is none": [("share.isolation.level", SET, "serializable")],
        "append to a number": [(LOCK, APPEND, "5")],
        "null": [(LOCK, SET, None)],
        "the same twice": [(LOCK, SET, "20000"), (LOCK, SET, "30000")],
    }
    for note, rows in wrong.items():
        _change(play, note, group, *rows)
    _change(play, "no group", "", (LOCK, SET, "20000"))
    play.exchange(DESCRIBE, 4, _describe(f"{group}-other", LOCK), "nothing of another")


@conversation
def alter_configs_of_groups(play: Play) -> None:
    group = f"{play.name}-g"
    for version in play.versions(ALTER):

        def exchange(note: str, *rows: tuple[str, str | None], version: int = version, is_dry: bool = False) -> None:
            resource = old.AlterConfigsResource(GROUP, group, [old.AlterableConfig(*row) for row in rows])
            play.exchange(ALTER, version, old.AlterConfigsRequest([resource], is_dry), note)

        exchange("set", (LOCK, "20000"), (SESSION, "50000"))
        _settled(play, group, SESSION, "50000")
        exchange("only one", (LOCK, "21000"))
        _settled(play, group, SESSION, "45000")
        play.exchange(DESCRIBE, 4, _describe(group, LOCK, SESSION), f"what is set now ({version})")
        exchange("wrong", (LOCK, "1"))
        exchange("nothing")
        _settled(play, group, LOCK, "30000")
