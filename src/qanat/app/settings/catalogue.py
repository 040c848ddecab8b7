"""Every setting of a node by its name: which struct owns it, and how its value is checked."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from qanat.app.settings.handler_settings import HandlerSettings
from qanat.app.settings.metadata_settings import MetadataSettings
from qanat.app.settings.own_settings import OwnSettings
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.broker.settings.topic_settings import TOPIC_SETTINGS, TopicSetting
from qanat.edge.settings import EdgeSettings
from qanat.groups.settings import GroupSettings
from qanat.log.settings import DirectorySettings
from qanat.model.errors import InvalidSettingError
from qanat.model.settings import Settings
from qanat.security.settings import SecuritySettings
from qanat.security.tls_settings import TlsSettings
from qanat.servers.http.settings import HttpSettings
from qanat.transactions.settings import TransactionSettings

Owner = type[Settings] | TopicSetting
STRUCTS: tuple[type[Settings], ...] = (
    OwnSettings,
    MetadataSettings,
    BrokerSettings,
    SecuritySettings,
    TlsSettings,
    HttpSettings,
    DirectorySettings,
    GroupSettings,
    TransactionSettings,
    HandlerSettings,
    EdgeSettings,
)


class Known(Struct, frozen=True):
    """One setting. Its owner is a struct, or the topic setting whose default it is."""

    name: str
    owner: Owner

    def check(self, text: str) -> str:
        """The value as its owner reads it; raises `ValueError` with the reason."""
        try:
            if isinstance(self.owner, TopicSetting):
                return self.owner.form.normalize(self.name, text)
            self.owner.check_one(self.name, text)
        except InvalidSettingError as fault:
            raise ValueError(_reason(str(fault))) from None
        return text

    @property
    def notice(self) -> str | None:
        """Why setting it has no effect; None if it has one."""
        is_idle = isinstance(self.owner, TopicSetting) and not self.owner.has_effect
        return "it is stored and has no effect" if is_idle else None


def _reason(message: str) -> str:
    """The reason alone, without the name and value that the error shows anyway."""
    for separator in (": Value must", ": Not a number", ": Expected value", ": String must", "': "):
        _, found, reason = message.rpartition(separator)
        if found:
            return (found.removeprefix("': ").removeprefix(": ") + reason).strip()
    return message


def _all() -> dict[str, Known]:
    known = {name: Known(name, struct) for struct in STRUCTS for name in struct.__struct_encode_fields__}
    for row in TOPIC_SETTINGS.values():
        if row.broker_name is not None:
            known.setdefault(row.broker_name, Known(row.broker_name, row))
    return known


SETTINGS: Mapping[str, Known] = _all()
"""Every name that a node knows, aliases aside."""
