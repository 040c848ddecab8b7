"""Dynamic settings of brokers: for one, for all, and settings that cannot be changed."""

from __future__ import annotations

from qanat.wire.kafka.messages import alter_configs as old
from qanat.wire.kafka.messages import incremental_alter_configs as incremental
from qanat.wire.kafka.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.play import Play
from verify.conformance.script import conversation

BROKER = 4
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
DESCRIBE, ALTER, CHANGE = ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS
NAME = "log.cleaner.backoff.ms"
"""Has no effect on other conversations with the same broker."""


def _describe(name: str, setting: str = NAME) -> DescribeConfigsRequest:
    return DescribeConfigsRequest([DescribeConfigsResource(BROKER, name, [setting])], True, False)


def _change(play: Play, version: int, note: str, name: str, *rows: tuple[str, int, str | None]) -> None:
    configs = [incremental.AlterableConfig(*row) for row in rows]
    resource = incremental.AlterConfigsResource(BROKER, name, configs)
    request = incremental.IncrementalAlterConfigsRequest([resource], False)
    play.exchange(CHANGE, version, request, note, on=f"{note} v{version}")


def _settled(play: Play, value: str) -> None:
    """Wait until the broker that answers knows a change."""

    def is_known() -> bool:
        configs = play.quietly(DESCRIBE, 4, _describe("1")).results[0].configs
        return bool(configs and configs[0].value == value)

    play.until(is_known)


@conversation
def change_configs_of_brokers(play: Play) -> None:
    for version in play.versions(CHANGE):
        _change(play, version, "for all", "", (NAME, SET, "16000"))
        _settled(play, "16000")
        _change(play, version, "for one", "1", (NAME, SET, "17000"))
        _settled(play, "17000")
        play.exchange(DESCRIBE, 4, _describe("1"), "set for one and for all")
        play.exchange(DESCRIBE, 4, _describe(""), "what is set for all")
        _change(play, version, "a setting that is read at start", "1", ("num.partitions", SET, "9"))
        _change(play, version, "a setting that is read at start, for all", "", ("num.partitions", SET, "9"))
        _change(play, version, "a bad number", "1", (NAME, SET, "soon"))
        _change(play, version, "a number out of range", "1", (NAME, SET, "-5"))
        _change(play, version, "null", "1", (NAME, SET, None))
        _change(play, version, "the same twice", "1", (NAME, SET, "1"), (NAME, SET, "2"))
        _change(play, version, "append to a number", "1", (NAME, APPEND, "5"))
        _change(play, version, "another broker", "77", (NAME, SET, "1"))
        _change(play, version, "no broker", "x", (NAME, SET, "1"))
        _change(play, version, "forgotten for one", "1", (NAME, DELETE, None))
        _settled(play, "16000")
        _change(play, version, "forgotten for all", "", (NAME, DELETE, None))
        _settled(play, "15000")
        play.exchange(DESCRIBE, 4, _describe("1"), "forgotten")


@conversation
def alter_configs_of_brokers(play: Play) -> None:
    for version in play.versions(ALTER):

        def exchange(note: str, *rows: tuple[str, str | None], version: int = version, dry: bool = False) -> None:
            resource = old.AlterConfigsResource(BROKER, "1", [old.AlterableConfig(*row) for row in rows])
            play.exchange(ALTER, version, old.AlterConfigsRequest([resource], dry), note, on=f"{note} v{version}")

        exchange("set", (NAME, "18000"))
        _settled(play, "18000")
        exchange("only validated", (NAME, "19000"), dry=True)
        exchange("a setting that is read at start", ("num.partitions", "9"))
        play.exchange(DESCRIBE, 4, _describe("1"), "what is set now")
        exchange("nothing")
        _settled(play, "15000")
