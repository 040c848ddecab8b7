"""Subscriptions to metrics of clients (KIP-714): which clients push which metrics, and how often.

A subscription is a config resource of the type client-metrics, with three settings:

    interval.ms   how often its clients push
    metrics       prefixes of names; `*` stands for all
    match         which clients: `client_id=billing-.*,client_software_name=librdkafka`; all where it is empty

A client gets what all subscriptions that it matches want together. It pushes under their number, which changes with
what is wanted: so a client learns of a change with its next push.

Rule: patterns are an operator's, the texts that they are tried on are a client's. A pattern that could take forever
      (`(a+)+`) is refused, and long texts match nothing.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from re import _parser as pattern_parser  # type: ignore[attr-defined]

from msgspec import Struct

from qanat.model.error_codes import ErrorCode
from qanat.model.errors import InvalidSettingError

INTERVAL, METRICS, MATCH = "interval.ms", "metrics", "match"
ALL_METRICS = "*"
DEFAULT_INTERVAL_MS = 300_000
INTERVAL_MIN_MS, INTERVAL_MAX_MS = 100, 3_600_000
CLIENT_PROPERTIES = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
_TEXT_CHARS_MAX = 256
_PATTERN_CHARS_MAX = 1000
_REPEATS_MAX = 4


class WrongSubscriptionError(InvalidSettingError):
    """A setting that a subscription cannot have; of a wrong pattern Kafka says INVALID_CONFIG."""

    code = ErrorCode.INVALID_REQUEST


class Subscription(Struct, frozen=True):
    """One subscription."""

    interval_ms: int = DEFAULT_INTERVAL_MS
    metrics: tuple[str, ...] = ()
    match: tuple[tuple[str, re.Pattern[str]], ...] = ()

    def matches(self, client: Mapping[str, str]) -> bool:
        return all(
            len(client.get(name, "")) <= _TEXT_CHARS_MAX and pattern.fullmatch(client.get(name, "")) is not None
            for name, pattern in self.match
        )


class Wanted(Struct, frozen=True):
    """What one client is to push."""

    subscription_id: int
    interval_ms: int
    metrics: tuple[str, ...]
    """Prefixes of names; none where nothing is wanted."""


def parse_subscription(configs: Mapping[str, str]) -> Subscription:
    """A subscription by its settings; raises `InvalidSettingError` in Kafka's words."""
    for name in configs:
        if name not in (INTERVAL, METRICS, MATCH):
            raise WrongSubscriptionError(f"Unknown client metrics configuration: {name}")
    return Subscription(
        _interval(configs.get(INTERVAL, str(DEFAULT_INTERVAL_MS))),
        _metrics(configs.get(METRICS, "")),
        tuple(_matching(one) for one in _items(configs.get(MATCH, ""))),
    )


def wanted_of(subscriptions: Iterable[Subscription], client: Mapping[str, str]) -> Wanted:
    """What all subscriptions that a client matches want of it together."""
    matching = [one for one in subscriptions if one.metrics and one.matches(client)]
    metrics = tuple(sorted({prefix for one in matching for prefix in one.metrics}))
    if ALL_METRICS in metrics:
        metrics = (ALL_METRICS,)
    interval_ms = min((one.interval_ms for one in matching), default=DEFAULT_INTERVAL_MS)
    text = "|".join((client.get("client_instance_id", ""), str(interval_ms), *metrics))
    return Wanted(zlib.crc32(text.encode()) - (1 << 31), interval_ms, metrics)


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _interval(text: str) -> int:
    try:
        found = int(text.strip())
    except ValueError:
        raise WrongSubscriptionError(f"Invalid value {text[:100]} for configuration {INTERVAL}: Not a number") from None
    if not INTERVAL_MIN_MS <= found <= INTERVAL_MAX_MS:
        raise WrongSubscriptionError(
            f"Invalid value {found} for {INTERVAL}, interval must be between {INTERVAL_MIN_MS} and "
            f"{INTERVAL_MAX_MS} (1 hour)"
        )
    return found


def _metrics(text: str) -> tuple[str, ...]:
    return tuple(sorted({ALL_METRICS if item == ALL_METRICS else item for item in _items(text)}))


def _matching(item: str) -> tuple[str, re.Pattern[str]]:
    name, separator, text = (part.strip() for part in item.partition("="))
    if not separator or not text:
        raise InvalidSettingError(f"Illegal client matching pattern: {item[:200]}")
    if name not in CLIENT_PROPERTIES:
        raise InvalidSettingError(
            f"Illegal client matching property: {name[:200]}; clients have {', '.join(CLIENT_PROPERTIES)}"
        )
    return name, _pattern(text)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        parsed = pattern_parser.parse(text[:_PATTERN_CHARS_MAX])
        compiled = re.compile(text)
    except (re.error, OverflowError, RecursionError) as fault:
        raise InvalidSettingError(f"Illegal client matching pattern: {text[:200]}: {fault}") from None
    if len(text) > _PATTERN_CHARS_MAX or _repeats(parsed) > _REPEATS_MAX:
        raise InvalidSettingError(
            f"Illegal client matching pattern: {text[:200]}: it could take too long; repeat nothing that is repeated "
            f"already, at most {_REPEATS_MAX} times in all, without back references, in {_PATTERN_CHARS_MAX} characters"
        )
    return compiled


def _repeats(parsed: object, *, is_inside: bool = False) -> int:
    """How many parts of a pattern repeat without a bound; too many where one is inside another."""
    count = 0
    for node in parsed:  # type: ignore[attr-defined]
        kind, value = str(node[0]), node[1]
        is_repeat = kind.endswith("_REPEAT") and value[1] > 1
        if kind.startswith("GROUPREF") or (is_repeat and is_inside):
            return _REPEATS_MAX + 1
        count += is_repeat
        for inner in _inner(kind, value):
            count += _repeats(inner, is_inside=is_inside or is_repeat)
    return count


def _inner(kind: str, value: object) -> list[object]:
    """The parts of a node that are patterns themselves."""
    if kind == "BRANCH":
        return list(value[1])  # type: ignore[index]
    if kind.endswith("_REPEAT") or kind in ("SUBPATTERN", "ASSERT", "ASSERT_NOT"):
        return [value[-1]]  # type: ignore[index]
    if kind == "ATOMIC_GROUP":
        return [value]
    return []
