"""Topic names: which ones are valid by Kafka's rules, in Kafka's words."""

from __future__ import annotations

import re

NAME_LENGTH_MAX = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
IDEMPOTENCY_TOPIC = "__http_idempotency"
INTERNAL_TOPICS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC, IDEMPOTENCY_TOPIC)
"""Topics that brokers write themselves, whether they exist already or not."""
PIPELINES_TOPIC = "__qanat_pipelines"
"""The state of pipeline runs. Listings and patterns leave it out like an internal topic, but runs write it: clients."""


def is_for_brokers(name: str, is_internal: bool) -> bool:
    """Whether brokers alone may write a topic; `is_internal` as its metadata says."""
    return name in INTERNAL_TOPICS or (is_internal and name != PIPELINES_TOPIC)


def name_problem(name: str) -> str | None:
    """Why `name` is no valid topic name, or `None` if it is."""
    reason = _reason(name)
    return None if reason is None else f"Topic name is invalid: {reason}"


def _reason(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def metric_name(name: str) -> str:
    """The name with `_` for `.`, as in Kafka's metrics: two topics may not share it."""
    return name.replace(".", "_")
