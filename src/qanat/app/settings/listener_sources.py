"""Listeners as sources have them: `listeners`, `advertised.listeners`, their protocols, `listener.name.<name>.*`.

One listener is split into host, port and protocol, so that a later source may change each (`--port 9093`). Several stay
together: a later source replaces all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from qanat.app.settings.listener_names import PER_LISTENER, ListenerOverrides
from qanat.app.settings.listeners import (
    EVERYWHERE,
    PROTOCOLS,
    ListenerAddress,
    parse_listeners,
    parse_protocols,
)
from qanat.app.settings.source_value import SourceValue
from qanat.model.errors import InvalidSettingError
from qanat.model.spelling import did_you_mean

LISTENER_PREFIX = "listener.name."
LISTENERS, ADVERTISED, INTER_BROKER = "listeners", "advertised.listeners", "inter.broker.listener.name"
_PARTS = {
    LISTENERS: ("host.name", "port", "listener.security.protocol"),
    ADVERTISED: ("advertised.host.name", "advertised.port"),
}
"""The settings that one listener is split into."""
_ANY_HOST = {LISTENERS: EVERYWHERE, ADVERTISED: "localhost"}


class SeveralListeners(NamedTuple):
    """What a node's settings have of listeners beyond host, port and protocol."""

    bound: tuple[ListenerAddress, ...]
    name: str | None
    advertised: tuple[ListenerAddress, ...]
    inter_broker: str | None
    overrides: Mapping[str, Mapping[str, str]]


class ListenerSources:
    """The listeners of all sources; their protocols are those of the last source that has a map."""

    def __init__(self, sources: Iterable[Iterable[SourceValue]]) -> None:
        maps = [value for source in sources for value in source if value.name == "listener.security.protocol.map"]
        try:
            self._protocols = parse_protocols(maps[-1].text) if maps else {}
        except ValueError as fault:
            raise maps[-1].wrong(str(fault)) from None

    def split(self, value: SourceValue) -> tuple[SourceValue, ...]:
        """A value, with its parts where it is a single listener."""
        if value.name not in _PARTS:
            return (value,)
        found = self._parsed(value)
        if len(found) > 1:
            return (value,)
        _, host, port, protocol = found[0]
        texts = (host or _ANY_HOST[value.name], str(port), protocol)
        parts = zip(_PARTS[value.name], texts, strict=False)
        return (value, *(SourceValue(name, text, value.origin) for name, text in parts))

    def merge(self, values: dict[str, SourceValue], later: Mapping[str, SourceValue]) -> None:
        """Put the values of a later source over earlier ones; several listeners replace the parts of one."""
        for name, parts in _PARTS.items():
            if name in later and len(self._parsed(later[name])) > 1:
                for part in parts:
                    values.pop(part, None)
        values |= later

    def compose(self, values: Mapping[str, SourceValue], notices: list[str]) -> SeveralListeners:
        """What is left when the parts of a single listener are taken out."""
        bound, advertised = self._several(LISTENERS, values), self._several(ADVERTISED, values)
        name = None
        if LISTENERS in values and not bound:
            name = self._parsed(values[LISTENERS])[0].name
            name = None if name in PROTOCOLS else name
        if not bound and advertised:
            raise values[ADVERTISED].wrong("there are several, but listeners has one")
        if bound and ADVERTISED in values and not advertised:
            advertised = tuple(self._parsed(values[ADVERTISED]))
        return SeveralListeners(bound, name, advertised, self._inter_broker(values, bound, notices), _overrides(values))

    def _parsed(self, value: SourceValue) -> list[ListenerAddress]:
        try:
            return parse_listeners(value.text, self._protocols)
        except ValueError as fault:
            raise value.wrong(str(fault)) from None

    def _several(self, name: str, values: Mapping[str, SourceValue]) -> tuple[ListenerAddress, ...]:
        if name not in values:
            return ()
        found = self._parsed(values[name])
        if len(found) == 1:
            return ()
        for part in _PARTS[name]:
            if part in values:
                raise values[part].wrong(f"{name} has several ({values[name].origin}): change it there")
        return tuple(one._replace(host=one.host or _ANY_HOST[name]) for one in found)

    def _inter_broker(
        self, values: Mapping[str, SourceValue], bound: tuple[ListenerAddress, ...], notices: list[str]
    ) -> str | None:
        given = values.get(INTER_BROKER)
        if given is None:
            return None
        if not bound:
            reason = "the only listener is for clients; brokers find each other on one of their own"
            notices.append(f"{INTER_BROKER} ({given.origin}) has no effect: {reason}")
            return None
        if "inter.broker.port" in values:
            raise given.wrong("inter.broker.port is given as well: give one of them")
        return given.text.strip().upper()


def listener_setting(value: SourceValue) -> SourceValue:
    """`listener.name.<name>.<setting>` with the name in lower case; raises where no listener can have the setting."""
    name, _, setting = value.name.removeprefix(LISTENER_PREFIX).partition(".")
    if setting not in PER_LISTENER or not name:
        hint = did_you_mean(setting, PER_LISTENER, f"a listener can have {', '.join(PER_LISTENER)}")
        raise InvalidSettingError(f"unknown setting {value.name!r} ({value.origin}){hint}")
    return SourceValue(f"{LISTENER_PREFIX}{name.lower()}.{setting}", value.text, value.origin)


def setting_of(name: str) -> str:
    """The setting itself, without the listener that it is for."""
    return name.removeprefix(LISTENER_PREFIX).partition(".")[2] if name.startswith(LISTENER_PREFIX) else name


def _overrides(values: Mapping[str, SourceValue]) -> dict[str, ListenerOverrides]:
    found: dict[str, ListenerOverrides] = {}
    for name, value in values.items():
        if name.startswith(LISTENER_PREFIX):
            listener, _, setting = name.removeprefix(LISTENER_PREFIX).partition(".")
            found.setdefault(listener.upper(), ListenerOverrides())[setting] = value.text
    return found
