"""What the authorizer's dry run has recorded on this broker, as a setting that DescribeConfigs shows where it is asked
for by name (`qanat acl suggest`)."""

from __future__ import annotations

import msgspec

from qanat.broker.broker import Broker
from qanat.broker.settings.effective_settings import SettingEntry, SettingSource
from qanat.broker.settings.setting_kinds import SettingKind
from qanat.security.authorization import Resource

NAME = "authorizer.dry.run.denials"
_NO_HOST = ""
"""An address that no rule names."""


class DenialRow(msgspec.Struct, frozen=True):
    """One recorded denial, in Kafka's names."""

    principal: str
    operation: str
    kind: str
    name: str
    count: int


class DenialReport(msgspec.Struct, frozen=True):
    """The denials of one broker since its start."""

    dropped: int
    denials: list[DenialRow]


def denials_entry(broker: Broker) -> SettingEntry | None:
    """The report as a setting, without what rules for all hosts decide by now; None where there is no dry run."""
    authorizer = broker.acl_authorizer
    dry_run = None if authorizer is None else authorizer.dry_run
    if authorizer is None or dry_run is None:
        return None
    rows = [
        DenialRow(one.principal, one.operation.name, one.kind.name, one.name, count)
        for one, count in dry_run.counts.items()
        if authorizer.decide(one.principal, _NO_HOST, one.operation, Resource(one.kind, one.name)).acl is None
    ]
    text = msgspec.json.encode(DenialReport(dry_run.dropped, rows)).decode()
    meaning = "What rules would have denied, recorded by the authorizer's dry run."
    return SettingEntry(NAME, text, SettingKind.STRING, SettingSource.DEFAULT, (), meaning, is_read_only=True)
