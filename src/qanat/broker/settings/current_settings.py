"""The settings in force on this broker: those of its start, and what was changed in the metadata store since.

A change takes effect at once. Changed topic defaults reach topic after topic, since there may be very many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from qanat.broker.settings import topic_settings
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.broker.settings.dynamic_settings import InForce, check_overrides
from qanat.broker.settings.topic_settings import TopicSettings
from qanat.cluster.elections import Rules
from qanat.cluster.image import MetadataImage
from qanat.groups.settings import GroupSettings
from qanat.log.directories.directory import LogDirectory
from qanat.model.errors import InvalidSettingError
from qanat.security.settings import SecuritySettings
from qanat.telemetry.events import log_event
from qanat.transactions.settings import TransactionSettings


class CurrentSettings:
    """The settings of one broker. `apply` whenever the store has changed; `park` runs work until the broker closes."""

    def __init__(
        self,
        at_start: InForce,
        transactions: TransactionSettings,
        node_id: int,
        image: MetadataImage,
        directory: LogDirectory,
        park: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self.at_start = at_start
        """The settings that the broker was started with."""
        self.transactions = transactions
        self.security = SecuritySettings()
        """Those of the node's listeners; set by the node that has others than the defaults."""
        self.node_id = node_id
        self.image = image
        self.directory = directory
        self.broker: BrokerSettings = at_start.broker
        self.groups: GroupSettings = at_start.groups
        self.topic_defaults: Mapping[str, str] = at_start.topic_defaults
        """Settings of topics that have none of their own."""
        self.on_group_settings: Callable[[GroupSettings], None] | None = None
        """Called with the settings of groups when settings were applied."""
        self.apply_to_topic: Callable[[str], None] | None = None
        """Applies a topic's settings after its defaults have changed."""
        self._park = park
        self._applying: asyncio.Task[None] | None = None
        """Changed defaults on their way to all topics."""

    def apply(self) -> None:
        """Apply what was set for this broker or for all."""
        image = self.image
        try:
            in_force = self.at_start.with_changes(
                {**image.broker_overrides(None), **image.broker_overrides(self.node_id)}
            )
        except InvalidSettingError as fault:
            # Another version, with other settings, wrote it: the settings in force stay.
            log_event("settings in the store cannot be applied", level="error", reason=str(fault))
            return
        self.broker = in_force.broker
        self.directory.settings = in_force.directory
        self.groups = in_force.groups
        if self.on_group_settings is not None:
            self.on_group_settings(in_force.groups)
        if in_force.topic_defaults != self.topic_defaults:
            self.topic_defaults = in_force.topic_defaults
            self._applying = self._park(self._apply_to_topics())

    async def applied(self) -> None:
        """Return once every topic has the latest defaults."""
        if self._applying is not None:
            await self._applying

    async def _apply_to_topics(self) -> None:
        for name in list(self.image.topics):
            if self.apply_to_topic is not None:
                self.apply_to_topic(name)
            await asyncio.sleep(0)

    # Topics

    def topic(self, name: str) -> TopicSettings:
        """A topic's settings, with defaults where it has none of its own."""
        return topic_settings.parse({**self.topic_defaults, **self.image.overrides(name)})

    def election_rules(self, topic: str) -> Rules:
        """What a topic's settings say about its elections."""
        settings = self.topic(topic)
        flushed_since = self.image.flushed_since(topic) if settings.log.is_synced else None
        return Rules(settings.min_insync_replicas, flushed_since, settings.unclean_leader_election_enable)

    # Checks of clients' changes

    def check_topic(self, overrides: Mapping[str, str]) -> TopicSettings:
        """The settings that a topic would have with these overrides; raises `InvalidSettingError`."""
        topic_settings.parse(overrides)
        return topic_settings.parse({**self.topic_defaults, **overrides})

    def check_broker(self, overrides: Mapping[str, str], *, is_for_all: bool) -> None:
        """Refuse overrides that this broker, or all, could not apply; raises `InvalidSettingError`."""
        image = self.image
        below = image.broker_overrides(self.node_id) if is_for_all else image.broker_overrides(None)
        both = {**overrides, **below} if is_for_all else {**below, **overrides}
        check_overrides(self.at_start, overrides, ())
        check_overrides(self.at_start, both, image.topic_configs.values())
