"""Settings are changed one by one or all at once, and only to what the log accepts."""

from __future__ import annotations

import pytest
from tests.cluster.images import apply, image_with, new_topic_id

from qanat.cluster import keys, values
from qanat.cluster.image import MetadataImage
from qanat.cluster.rejection import Rejection
from qanat.cluster.store import Absent, Delete, ModifiedAt, Put
from qanat.cluster.topic_configs import ConfigAct, ConfigChange, ConfigPlan, decide_all_configs, decide_configs
from qanat.cluster.topics import CreateTopic, TopicPlan, decide_create
from qanat.log.settings import LogSettings
from qanat.model.error_codes import ErrorCode


def image_of(configs: dict[str, str | None]) -> MetadataImage:
    image = image_with()
    plan = decide_create(image, CreateTopic("a", new_topic_id(), configs=configs), LogSettings.parse)
    assert isinstance(plan, TopicPlan)
    apply(image, plan.operations)
    return image


def change(name: str, act: ConfigAct, value: str | None = None) -> ConfigChange:
    return ConfigChange(name, act, value)


def changed(image: MetadataImage, *changes: ConfigChange) -> dict[str, str]:
    plan = decide_configs(image, "a", changes, LogSettings.parse)
    assert isinstance(plan, ConfigPlan), plan
    apply(image, plan.operations)
    assert dict(image.overrides("a")) == plan.overrides
    return dict(plan.overrides)


def refused(image: MetadataImage, *changes: ConfigChange) -> ErrorCode:
    outcome = decide_configs(image, "a", changes, LogSettings.parse)
    assert isinstance(outcome, Rejection), outcome
    return outcome.code


def test_a_change_leaves_the_other_settings() -> None:
    image = image_of({"retention.ms": "1", "segment.bytes": "1000"})

    assert changed(image, change("retention.ms", ConfigAct.SET, "2")) == {"retention.ms": "2", "segment.bytes": "1000"}
    assert changed(image, change("retention.ms", ConfigAct.DELETE)) == {"segment.bytes": "1000"}
    assert changed(image, change("retention.ms", ConfigAct.DELETE)) == {"segment.bytes": "1000"}


def test_setting_all_forgets_the_others() -> None:
    image = image_of({"retention.ms": "1", "segment.bytes": "1000"})
    plan = decide_all_configs(image, "a", {"flush.ms": "5"}, LogSettings.parse)

    assert isinstance(plan, ConfigPlan)
    assert plan.operations == (
        Put(keys.topic_config("a"), values.encode(values.TopicConfig(overrides={"flush.ms": "5"}))),
    )


def test_the_last_override_takes_its_key_with_it() -> None:
    plan = decide_configs(
        image_of({"retention.ms": "1"}), "a", [change("retention.ms", ConfigAct.DELETE)], LogSettings.parse
    )

    assert isinstance(plan, ConfigPlan)
    assert plan.operations == (Delete(keys.topic_config("a")),)


def test_a_plan_holds_while_topic_and_settings_are_unchanged() -> None:
    image = image_of({})
    first = decide_configs(image, "a", [change("retention.ms", ConfigAct.SET, "1")], LogSettings.parse)
    assert isinstance(first, ConfigPlan)
    topic, config = keys.topic("a"), keys.topic_config("a")
    assert first.compares == (ModifiedAt(topic, image.revisions[topic]), Absent(config))
    apply(image, first.operations)
    second = decide_configs(image, "a", [change("retention.ms", ConfigAct.SET, "2")], LogSettings.parse)
    assert isinstance(second, ConfigPlan)
    assert second.compares == (ModifiedAt(topic, image.revisions[topic]), ModifiedAt(config, image.revision))


def test_lists_grow_and_shrink_from_their_default_on() -> None:
    image = image_of({})

    assert changed(image, change("cleanup.policy", ConfigAct.APPEND, "compact")) == {"cleanup.policy": "delete,compact"}
    assert changed(image, change("cleanup.policy", ConfigAct.APPEND, "compact")) == {"cleanup.policy": "delete,compact"}
    assert changed(image, change("cleanup.policy", ConfigAct.SUBTRACT, "delete")) == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([change("retention.ms", ConfigAct.SET, "soon")], ErrorCode.INVALID_CONFIG),
        ([change("retention.ms", ConfigAct.SET)], ErrorCode.INVALID_CONFIG),
        ([change("retention.mss", ConfigAct.SET, "1")], ErrorCode.INVALID_CONFIG),
        ([change("retention.ms", ConfigAct.APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([change("cleanup.policy", ConfigAct.APPEND)], ErrorCode.INVALID_CONFIG),
        ([change("cleanup.policy", ConfigAct.APPEND, "burn")], ErrorCode.INVALID_CONFIG),
        (
            [change("retention.ms", ConfigAct.SET, "1"), change("retention.ms", ConfigAct.DELETE)],
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_what_the_log_does_not_accept_is_refused(changes: list[ConfigChange], code: ErrorCode) -> None:
    assert refused(image_of({}), *changes) is code


def test_settings_of_an_unknown_topic_are_refused() -> None:
    assert refused(image_with(), change("retention.ms", ConfigAct.SET, "1")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
