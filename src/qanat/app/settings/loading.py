"""Settings put together: what each source says, one over the other, as the value that a node is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from qanat.app.node.node import NodeSettings
from qanat.app.settings.aliases import BY_KEY, BY_VARIABLE, Alias
from qanat.app.settings.catalogue import SETTINGS
from qanat.app.settings.environment import CONFIG, read_environment
from qanat.app.settings.file import read_file
from qanat.app.settings.given import Given
from qanat.app.settings.listeners import EVERYWHERE, parse_listener, parse_protocols
from qanat.app.settings.metadata import MetadataSettings
from qanat.app.settings.own import OwnSettings
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.broker.settings.topic_settings import TopicSetting
from qanat.groups.settings import GroupSettings
from qanat.log.settings import DirectorySettings
from qanat.model.errors import InvalidSettingError
from qanat.model.settings import Settings
from qanat.model.spelling import did_you_mean
from qanat.security.settings import SecuritySettings
from qanat.servers.http.settings import HttpSettings
from qanat.transactions.settings import TransactionSettings

if TYPE_CHECKING:
    from pathlib import Path

_LISTENERS = {
    "listeners": ("host.name", "port", EVERYWHERE),
    "advertised.listeners": ("advertised.host.name", "advertised.port", "localhost"),
}


class Loaded(Struct, frozen=True):
    """A node's settings, and what its owner should be told about them."""

    settings: NodeSettings
    notices: tuple[str, ...]


def load(flags: Sequence[Given], file: Path | None, environment: Mapping[str, str]) -> Loaded:
    """Read every source; raises `InvalidSettingError` for the first thing that is wrong."""
    if file is None and environment.get(CONFIG):
        from pathlib import Path

        file = Path(environment[CONFIG])
    sources = (
        read_file(file, environment) if file is not None else [],
        read_environment(environment, [*SETTINGS, *BY_KEY]),
        flags,
    )
    notices: list[str] = []
    given: dict[str, Given] = {}
    protocols = _protocols(sources)
    for source in sources:
        given |= _resolved(source, protocols, notices)
    settings = _compose(_checked(given, notices))
    notices += _without_etcd(settings.metadata, given)
    return Loaded(settings, tuple(notices))


def flag(name: str, value: object, spelling: str) -> Given:
    """A setting from the command line."""
    return Given(name, str(value), spelling)


def assignment(text: str) -> Given:
    """`-X name=value`."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise InvalidSettingError(f"-X {text}: write it as -X name=value")
    return Given(name.strip(), value.strip(), f"-X {text}")


def _protocols(sources: Iterable[Iterable[Given]]) -> Mapping[str, str]:
    """What listeners with names of their own ask of clients: the last word on it, which every source goes by."""
    maps = [given for source in sources for given in source if given.name == "listener.security.protocol.map"]
    try:
        return parse_protocols(maps[-1].text) if maps else {}
    except ValueError as fault:
        raise maps[-1].wrong(str(fault)) from None


def _resolved(source: Iterable[Given], protocols: Mapping[str, str], notices: list[str]) -> dict[str, Given]:
    """One source under the settings' own names; a setting that it gives twice is refused."""
    found: dict[str, Given] = {}
    for given in source:
        for resolved in _taken_apart(_real(given, notices), protocols):
            earlier = found.get(resolved.name)
            if earlier is not None and _is_twice(earlier, given):
                raise InvalidSettingError(f"{resolved.name} is given twice: {earlier.origin} and {given.origin}")
            found[resolved.name] = resolved
    return found


def _is_twice(earlier: Given, later: Given) -> bool:
    """Whether one file, or one command line, says two things; what `qanat dev` presets may be said otherwise."""
    return " line " in later.origin or (earlier.origin.startswith("-") and later.origin.startswith("-"))


def _taken_apart(given: Given | None, protocols: Mapping[str, str]) -> tuple[Given, ...]:
    """`listeners` and `advertised.listeners` as host, port and protocol, so that a later source may change each."""
    if given is None:
        return ()
    if given.name not in _LISTENERS:
        return (given,)
    host_name, port_name, any_host = _LISTENERS[given.name]
    try:
        host, port, protocol = parse_listener(given.text, protocols)
    except ValueError as fault:
        raise given.wrong(str(fault)) from None
    parts = (Given(host_name, host or any_host, given.origin), Given(port_name, str(port), given.origin))
    is_bound = given.name == "listeners"
    return (*parts, Given("listener.security.protocol", protocol, given.origin)) if is_bound else parts


def _real(given: Given, notices: list[str]) -> Given | None:
    if given.name in SETTINGS:
        return given
    alias = BY_VARIABLE.get(given.name) or BY_KEY.get(given.name)
    if alias is None:
        hint = did_you_mean(given.name, [*SETTINGS, *BY_KEY], "docs/operating/settings.md lists all of them")
        raise InvalidSettingError(f"unknown setting {given.name!r} ({given.origin}){hint}")
    if alias.setting is None:
        notices.append(f"{given.name} ({given.origin}) has no effect: {alias.note}")
        return None
    return Given(alias.setting, _converted(given, alias), given.origin)


def _converted(given: Given, alias: Alias) -> str:
    if alias.factor == 1:
        return given.text
    try:
        number = int(given.text)
    except ValueError:
        raise given.wrong("a whole number was expected") from None
    return str(number * alias.factor if number >= 0 else number)


def _checked(given: Mapping[str, Given], notices: list[str]) -> dict[str, Given]:
    checked = {}
    for name, one in given.items():
        known = SETTINGS[name]
        try:
            checked[name] = Given(name, known.check(one.text), one.origin)
        except ValueError as fault:
            raise one.wrong(str(fault)) from None
        if known.notice is not None:
            notices.append(f"{name} ({one.origin}): {known.notice}")
    return checked


def _compose(given: Mapping[str, Given]) -> NodeSettings:
    own = OwnSettings.parse(_of(OwnSettings, given))
    data_dir = given.get("data.dir")
    if data_dir is not None and ("," in own.data_dir or not own.data_dir):
        raise data_dir.wrong("exactly one directory is needed")
    topic_defaults = {
        known.owner.name: given[name].text
        for name, known in SETTINGS.items()
        if isinstance(known.owner, TopicSetting) and name in given
    }
    return NodeSettings(
        data_dir=own.data_dir,
        node_id=_node_id(own, given.get("node.id")),
        storage_engine=own.storage_engine,
        metadata=_metadata(given),
        broker=BrokerSettings.parse(_of(BrokerSettings, given)),
        directory=DirectorySettings.parse(_of(DirectorySettings, given)),
        groups=GroupSettings.parse(_of(GroupSettings, given)),
        transactions=TransactionSettings.parse(_of(TransactionSettings, given)),
        security=SecuritySettings.parse(_of(SecuritySettings, given)),
        http=HttpSettings.parse(_of(HttpSettings, given)),
        topic_defaults=topic_defaults,
    )


def _metadata(given: Mapping[str, Given]) -> MetadataSettings:
    settings = MetadataSettings.parse(_of(MetadataSettings, given))
    if settings.metadata_store == "etcd":
        from qanat.app.node.etcd_opening import check_settings

        check_settings(settings)
    return settings


def _without_etcd(settings: MetadataSettings, given: Mapping[str, Given]) -> list[str]:
    """Notices for what is said of an etcd that is not asked for."""
    if settings.metadata_store == "etcd":
        return []
    named = [one for name, one in given.items() if name.startswith("metadata.etcd.")]
    return [f"{one.name} ({one.origin}) has no effect: metadata.store is {settings.metadata_store}" for one in named]


def _of(struct: type[Settings], given: Mapping[str, Given]) -> dict[str, object]:
    return {name: given[name].text for name in struct.__struct_encode_fields__ if name in given}


def _node_id(own: OwnSettings, given: Given | None) -> int | str:
    """A number as it is; a name, if it can be one."""
    text = own.node_id
    if text.isascii() and text.isdigit():
        if int(text) >= 2**31:
            raise (given or Given("node.id", text, "default")).wrong("the highest number is 2147483647")
        return int(text)
    is_name = text[:1].isalnum() and len(text) <= 200 and all(one.isalnum() or one in "._-" for one in text)
    if not is_name:
        rule = "write a number from 0 on, or a name that begins with a letter or digit and has also . _ -"
        raise (given or Given("node.id", text, "default")).wrong(rule)
    return text
