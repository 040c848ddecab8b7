"""Valid values of `replica.selector.class`."""

from __future__ import annotations

import pytest

from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.model.errors import InvalidSettingError


@pytest.mark.parametrize("name", ["RackAwareReplicaSelector", "org.apache.kafka.common.replica.LeaderSelector"])
def test_kafkas_selectors_are_known_with_and_without_their_package(name: str) -> None:
    assert BrokerSettings.parse({"replica.selector.class": name}).replica_selector_class == name


def test_any_other_selector_is_refused_with_the_names_that_are_known() -> None:
    with pytest.raises(InvalidSettingError, match="known are RackAwareReplicaSelector and LeaderSelector"):
        BrokerSettings.parse({"replica.selector.class": "com.example.Nearest"})
