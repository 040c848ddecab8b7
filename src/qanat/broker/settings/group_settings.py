"""Settings of single groups: overrides in the metadata store, over the defaults for all groups.

A change takes effect with the next heartbeat or fetch; a session or a lock that is under way retains its deadline.
Bounds are settings of the broker (`group.share.min.session.timeout.ms` and the like). Unlike Kafka's, they do not bind
the broker's own defaults: where such a default lies outside, it widens them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from qanat.broker.settings.effective_settings import SettingEntry, SettingSource, Synonym
from qanat.broker.settings.setting_kinds import Form, SettingKind
from qanat.cluster.image import MetadataImage
from qanat.groups.group_overrides import GroupOverrides
from qanat.groups.settings import GroupSettings
from qanat.groups.share.offset_reset import parse_offset_reset
from qanat.model.errors import InvalidSettingError
from qanat.model.setting_meanings import meanings
from qanat.model.topic_names import INTERNAL_TOPICS, name_problem
from qanat.telemetry.events import log_event

_NAMES = dict(zip(GroupOverrides.__struct_encode_fields__, GroupOverrides.__struct_fields__, strict=True))
_BOUNDED = (
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "share.heartbeat.interval.ms",
    "share.session.timeout.ms",
    "share.record.lock.duration.ms",
)
"""Settings with a least and a greatest value among the broker's settings."""
_FORMS = {"share.isolation.level": Form(SettingKind.STRING, choices=("read_committed", "read_uncommitted"))}


class GroupConfigs:
    """The settings of each group."""

    def __init__(self, image: MetadataImage, settings: Callable[[], GroupSettings]) -> None:
        self._image = image
        self._settings = settings
        self._made: dict[str, GroupOverrides] = {}
        """Settings of groups that have overrides, and under the empty name those of all others."""

    def forget(self) -> None:
        """The overrides of a group, or the defaults of all, have changed."""
        self._made.clear()

    def of(self, group_id: str) -> GroupOverrides:
        known = self._made.get(group_id if group_id in self._image.group_configs else "")
        return self._make(group_id) if known is None else known

    def _make(self, group_id: str) -> GroupOverrides:
        common, overrides = GroupOverrides.like(self._settings()), self._image.group_overrides(group_id)
        try:
            own = _with(common, overrides)
        except InvalidSettingError as fault:
            # Another version, with other settings, wrote it: the group has the defaults.
            log_event("settings of a group cannot be applied", level="error", group=group_id, reason=str(fault))
            own = common
        self._made[group_id if overrides else ""] = own
        return own

    def check(self, overrides: Mapping[str, str]) -> None:
        """Refuse overrides that a group cannot have; raises `InvalidSettingError` in Kafka's words."""
        settings = self._settings()
        common = GroupOverrides.like(settings)
        for name, value in overrides.items():
            if name not in _NAMES:
                raise InvalidSettingError(f"Unknown group config name: {name}")
            _form(name, common).normalize(name, value)
        own = _with(common, overrides)
        for name in _BOUNDED:
            if name in overrides:
                _check_bounds(name, getattr(own, _NAMES[name]), getattr(common, _NAMES[name]), settings)
        for kind in ("consumer", "share"):
            session, interval = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
            if getattr(own, _NAMES[session]) <= getattr(own, _NAMES[interval]):
                raise InvalidSettingError(f"{session} must be greater than {interval}")

    def entries(self, group_id: str) -> list[SettingEntry]:
        """All settings of a group, by name."""
        common, overrides = GroupOverrides.like(self._settings()), self._image.group_overrides(group_id)
        known = meanings(GroupOverrides)
        return [_entry(name, common, overrides.get(name), known.get(name, "")) for name in sorted(_NAMES)]


def _with(common: GroupOverrides, overrides: Mapping[str, str]) -> GroupOverrides:
    if not overrides:
        return common
    own = GroupOverrides.parse({**{name: getattr(common, field) for name, field in _NAMES.items()}, **overrides})
    try:
        parse_offset_reset(own.share_auto_offset_reset)
    except ValueError as fault:
        raise InvalidSettingError(f"Invalid value for configuration share.auto.offset.reset: {fault}") from None
    _check_dead_letters(own.errors_deadletterqueue_topic_name.strip())
    return own


def _check_dead_letters(topic: str) -> None:
    """Refuse a dead-letter topic that could never be written to."""
    problem = name_problem(topic) if topic else None
    if topic in INTERNAL_TOPICS:
        problem = f"{topic} is written by brokers alone"
    if problem is not None:
        raise InvalidSettingError(
            f"Invalid value {topic} for configuration errors.deadletterqueue.topic.name: {problem}"
        )


def _form(name: str, common: GroupOverrides) -> Form:
    is_number = isinstance(getattr(common, _NAMES[name]), int)
    return _FORMS.get(name) or Form(SettingKind.INT if is_number else SettingKind.STRING)


def _check_bounds(name: str, value: int, common: int, settings: GroupSettings) -> None:
    kind, rest = name.split(".", 1)
    least, most = f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"
    if value < min(getattr(settings, least.replace(".", "_")), common):
        raise InvalidSettingError(f"{name} must be greater than or equal to {least}")
    if value > max(getattr(settings, most.replace(".", "_")), common):
        raise InvalidSettingError(f"{name} must be less than or equal to {most}")


def _entry(name: str, common: GroupOverrides, override: str | None, meaning: str) -> SettingEntry:
    default = str(getattr(common, _NAMES[name]))
    source = SettingSource.DEFAULT if override is None else SettingSource.GROUP
    value = default if override is None else override
    kind = _form(name, common).kind
    return SettingEntry(name, value, kind, source, (Synonym(name, value, source),), meaning, is_read_only=False)
