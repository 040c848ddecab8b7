"""Loading of settings: file, environment and flags combined into `NodeSettings`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from qanat.app.settings.aliases import BY_KEY, BY_VARIABLE, Alias
from qanat.app.settings.catalogue import SETTINGS
from qanat.app.settings.environment import CONFIG, read_environment
from qanat.app.settings.environments import PRESETS
from qanat.app.settings.environments import SETTING as ENVIRONMENT
from qanat.app.settings.faults import Faults
from qanat.app.settings.handler_settings import HandlerSettings
from qanat.app.settings.listener_sources import LISTENER_PREFIX, ListenerSources, listener_setting, setting_of
from qanat.app.settings.metadata_settings import MetadataSettings, check_etcd_settings
from qanat.app.settings.node_settings import NodeSettings
from qanat.app.settings.own_settings import OwnSettings
from qanat.app.settings.secret_values import resolved
from qanat.app.settings.settings_file import read_file
from qanat.app.settings.source_value import HIDDEN, SourceValue, is_secret, leading_name
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.broker.settings.topic_settings import TopicSetting
from qanat.edge.settings import EdgeSettings
from qanat.groups.settings import GroupSettings
from qanat.log.settings import DirectorySettings
from qanat.model.errors import InvalidSettingError
from qanat.model.settings import Settings
from qanat.model.spelling import did_you_mean
from qanat.security.settings import SecuritySettings
from qanat.security.tls_settings import TlsSettings
from qanat.servers.http.settings import HttpSettings
from qanat.transactions.settings import TransactionSettings

if TYPE_CHECKING:
    from pathlib import Path


_Part = TypeVar("_Part", bound=Settings)


class Loaded(Struct, frozen=True):
    """A node's settings, and notices for its operator."""

    settings: NodeSettings
    notices: tuple[str, ...]
    values: Mapping[str, SourceValue] = {}
    """Every setting that a source has, with its place there."""


def load(flags: Sequence[SourceValue], file: Path | None, environment: Mapping[str, str]) -> Loaded:
    """Read every source; raises `InvalidSettingError` for the first error."""
    loaded = examine(flags, file, environment, Faults())
    assert loaded is not None, "the first error is raised"
    return loaded


def examine(
    flags: Sequence[SourceValue], file: Path | None, environment: Mapping[str, str], faults: Faults
) -> Loaded | None:
    """Read every source; None where there are settings that `faults` has noted and that others depend on."""
    if file is None and environment.get(CONFIG):
        from pathlib import Path

        file = Path(environment[CONFIG])
    given = (
        read_file(file, environment, faults) if file is not None else [],
        read_environment(environment, [*SETTINGS, *BY_KEY], faults),
        flags,
    )
    sources = [_references(source, environment, faults) for source in given]
    notices: list[str] = []
    values: dict[str, SourceValue] = {}
    listeners = ListenerSources(())
    with faults:
        listeners = ListenerSources(sources)
    for source in sources:
        listeners.merge(values, _resolved(source, listeners, notices, faults))
    values = _presets(_checked(values, notices, faults))
    with faults:
        settings = _compose(values, listeners, notices, faults)
        notices += _without_etcd(settings.metadata, values)
        return Loaded(settings, tuple(notices), values)
    return None


def _references(source: Iterable[SourceValue], environment: Mapping[str, str], faults: Faults) -> list[SourceValue]:
    """The values of a source, with their references read."""
    found = []
    for value in source:
        with faults:
            found.append(resolved(value, environment) if "${" in value.text else value)
    return found


def _presets(values: Mapping[str, SourceValue]) -> dict[str, SourceValue]:
    """The values over the defaults of their environment."""
    chosen = values.get(ENVIRONMENT)
    if chosen is None:
        return dict(values)
    origin = f"environment {chosen.text}"
    return {name: SourceValue(name, text, origin) for name, text in PRESETS[chosen.text].items()} | dict(values)


def flag(name: str, value: object, spelling: str) -> SourceValue:
    """A setting from the command line."""
    return SourceValue(name, str(value), spelling)


def assignment(text: str) -> SourceValue:
    """`-X name=value`."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise InvalidSettingError(f"-X {leading_name(text)}: write it as -X name=value")
    return SourceValue(name.strip(), value.strip(), _origin(name.strip(), text))


def _origin(name: str, text: str) -> str:
    """The place of a flag, for errors: an unknown name may be a misspelled secret's, so its value is not shown."""
    if is_secret(name):
        return f"-X {name}={HIDDEN}"
    is_known = setting_of(name) in SETTINGS or name in BY_KEY
    return f"-X {text}" if is_known else f"-X {name}"


def _resolved(
    source: Iterable[SourceValue], listeners: ListenerSources, notices: list[str], faults: Faults
) -> dict[str, SourceValue]:
    """The settings of one source by their own names; raises where the source has a setting twice."""
    found: dict[str, SourceValue] = {}
    for value in source:
        with faults:
            real = _real(value, notices)
            for part in () if real is None else listeners.split(real):
                earlier = found.get(part.name)
                if earlier is not None and _is_twice(earlier, value):
                    raise InvalidSettingError(f"{part.name} is given twice: {earlier.origin} and {value.origin}")
                found[part.name] = part
    return found


def _is_twice(earlier: SourceValue, later: SourceValue) -> bool:
    """Whether one file, or one command line, has a setting twice; flags may override presets of `qanat dev`."""
    return " line " in later.origin or (earlier.origin.startswith("-") and later.origin.startswith("-"))


def _real(value: SourceValue, notices: list[str]) -> SourceValue | None:
    if value.name in SETTINGS:
        return value
    if value.name.startswith(LISTENER_PREFIX):
        return listener_setting(value)
    alias = BY_VARIABLE.get(value.name) or BY_KEY.get(value.name)
    if alias is None:
        hint = did_you_mean(value.name, [*SETTINGS, *BY_KEY], "docs/operating/settings.md lists all of them")
        raise InvalidSettingError(f"unknown setting {value.name!r} ({value.origin}){hint}")
    if alias.setting is None:
        notices.append(f"{value.name} ({value.origin}) has no effect: {alias.note}")
        return None
    return SourceValue(alias.setting, _converted(value, alias), value.origin)


def _converted(value: SourceValue, alias: Alias) -> str:
    if alias.factor == 1:
        return value.text
    try:
        number = int(value.text)
    except ValueError:
        raise value.wrong("a whole number was expected") from None
    return str(number * alias.factor if number >= 0 else number)


def _checked(values: Mapping[str, SourceValue], notices: list[str], faults: Faults) -> dict[str, SourceValue]:
    checked = {}
    for name, one in values.items():
        known = SETTINGS[setting_of(name)]
        with faults:
            try:
                checked[name] = SourceValue(name, known.check(one.text), one.origin)
            except ValueError as fault:
                raise one.wrong(str(fault)) from None
        if known.notice is not None:
            notices.append(f"{name} ({one.origin}): {known.notice}")
    return checked


def _compose(
    values: Mapping[str, SourceValue], listeners: ListenerSources, notices: list[str], faults: Faults
) -> NodeSettings:
    own = _part(OwnSettings, values, faults)
    data_dir = values.get("data.dir")
    if data_dir is not None and ("," in own.data_dir or not own.data_dir):
        raise data_dir.wrong("exactly one directory is needed")
    topic_defaults = {
        known.owner.name: values[name].text
        for name, known in SETTINGS.items()
        if isinstance(known.owner, TopicSetting) and name in values
    }
    several = listeners.compose(values, notices)
    return NodeSettings(
        data_dir=own.data_dir,
        node_id=_node_id(own, values.get("node.id")),
        environment=own.environment,
        storage_engine=own.storage_engine,
        network_type=own.network_type,
        metadata=_metadata(values, faults),
        broker=_part(BrokerSettings, values, faults),
        directory=_part(DirectorySettings, values, faults),
        groups=_part(GroupSettings, values, faults),
        transactions=_part(TransactionSettings, values, faults),
        edge=_part(EdgeSettings, values, faults),
        security=_part(SecuritySettings, values, faults),
        tls=_part(TlsSettings, values, faults),
        listeners=several.bound,
        listener_name=several.name,
        advertised_listeners=several.advertised,
        inter_broker_listener_name=several.inter_broker,
        listener_overrides=several.overrides,
        http=_part(HttpSettings, values, faults),
        handlers=_handlers(values, faults),
        topic_defaults=topic_defaults,
    )


def _part(struct: type[_Part], values: Mapping[str, SourceValue], faults: Faults) -> _Part:
    """The settings of one package."""
    with faults:
        return struct.parse(_of(struct, values))
    return struct()


def _metadata(values: Mapping[str, SourceValue], faults: Faults) -> MetadataSettings:
    settings = _part(MetadataSettings, values, faults)
    if settings.metadata_store == "etcd":
        with faults:
            check_etcd_settings(settings)
    return settings


def _handlers(values: Mapping[str, SourceValue], faults: Faults) -> HandlerSettings:
    settings = _part(HandlerSettings, values, faults)
    if settings.handlers_apps:
        from qanat.app.settings.handler_names import app_names

        with faults:
            app_names(settings.handlers_apps)
    return settings


def _without_etcd(settings: MetadataSettings, values: Mapping[str, SourceValue]) -> list[str]:
    """Notices for settings of etcd where the metadata store is another one."""
    if settings.metadata_store == "etcd":
        return []
    named = [one for name, one in values.items() if name.startswith("metadata.etcd.")]
    return [f"{one.name} ({one.origin}) has no effect: metadata.store is {settings.metadata_store}" for one in named]


def _of(struct: type[Settings], values: Mapping[str, SourceValue]) -> dict[str, object]:
    return {name: values[name].text for name in struct.__struct_encode_fields__ if name in values}


def _node_id(own: OwnSettings, value: SourceValue | None) -> int | str:
    """A number, or a valid name."""
    text = own.node_id
    if text.isascii() and text.isdigit():
        if int(text) >= 2**31:
            raise (value or SourceValue("node.id", text, "default")).wrong("the highest number is 2147483647")
        return int(text)
    is_name = text[:1].isalnum() and len(text) <= 200 and all(one.isalnum() or one in "._-" for one in text)
    if not is_name:
        rule = "write a number from 0 on, or a name that begins with a letter or digit and has also . _ -"
        raise (value or SourceValue("node.id", text, "default")).wrong(rule)
    return text
