"""`docs/operating/settings.md`, generated from settings and aliases: `python -m qanat.app.settings.settings_page`."""

from __future__ import annotations

from collections.abc import Iterator

from qanat.app.settings.aliases import ENVIRONMENT, FILE, Alias
from qanat.app.settings.catalogue import SETTINGS
from qanat.app.settings.environment import OTHERS, variable_of
from qanat.app.settings.handler_settings import HandlerSettings
from qanat.app.settings.metadata_settings import MetadataSettings
from qanat.app.settings.own_settings import OwnSettings
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.broker.settings.dynamic_settings import DYNAMIC
from qanat.broker.settings.topic_settings import TopicSetting
from qanat.edge.settings import EdgeSettings
from qanat.groups.settings import GroupSettings
from qanat.log.settings import NEVER_MS, DirectorySettings
from qanat.model.setting_meanings import meanings
from qanat.model.settings import Settings
from qanat.security.settings import SecuritySettings
from qanat.security.tls_settings import TlsSettings
from qanat.servers.http.settings import HttpSettings
from qanat.transactions.settings import TransactionSettings

_INTRODUCTION = """\
# Settings

Every setting of a node has one name, Kafka's where Kafka has one, and is set in any of these places; later ones win:

1. the default;
2. a file, `qanat start --config qanat.yml`: YAML, nested or dotted, or Kafka's `server.properties`;
3. the environment, `QANAT_NUM_PARTITIONS=3`: the name in capitals, underscores for dots, `QANAT_` in front;
4. flags: `--port`, `--host`, `--data-dir`, `--node-id`, and `-X name=value` for any other.

```yaml
num.partitions: 3                  # dotted ...
log:                               # ... or nested: log.retention.ms
  retention.ms: 86400000
data.dir: ${DATA_DIR:./data}       # an environment variable, or the text after the colon
```

A setting that is unknown, mistyped or out of range is an error at start. The error names the setting, the file and
line, variable or flag it came from, and the nearest right name. A setting without effect is logged as a notice.

Some settings of a broker can be changed while it runs, for one broker or for all of them, with any tool that alters
configurations (`kafka-configs --entity-type brokers`). A change takes effect at once, is stored in the metadata store,
and wins over all of the above. These settings are marked with ↻ below; the others are read at start.

This page is generated (`python -m qanat.app.settings.settings_page`).
"""

_SECTIONS: tuple[tuple[str, str, type[Settings]], ...] = (
    ("The node", "Its identity and its data directory.", OwnSettings),
    ("The metadata store", "Where the cluster keeps its topics, settings and brokers.", MetadataSettings),
    ("The broker", "Its listener and its limits.", BrokerSettings),
    ("Security", "Authentication and authorization.", SecuritySettings),
    ("TLS", "Certificates and keys; `listener.name.<name>.` before a setting gives it to one listener.", TlsSettings),
    ("HTTP", "The HTTP server: its address and its limits.", HttpSettings),
    ("The data directory", "Settings that hold for all logs of the node.", DirectorySettings),
    ("Consumer groups", "Limits of the group coordinator.", GroupSettings),
    ("Handlers", "Apps that the broker runs in processes of their own (docs/operating/handlers.md).", HandlerSettings),
    ("Transactions", "Limits of the transaction coordinator.", TransactionSettings),
    ("The tree of brokers", "The registry of this broker, and the pipe to its parent.", EdgeSettings),
)


def page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for title, lead, struct in _SECTIONS:
        parts.append(_section(title, lead, _struct_rows(struct)))
    lead = "A topic has these unless it has settings of its own."
    parts.append(_section("Defaults of topics", lead, _topic_rows()))
    parts.append(_aliases("Other names: variables", "Variables without `QANAT_` that are understood.", ENVIRONMENT))
    lead = "Keys of files and of `-X` that are understood, from Kafka and from other brokers' files."
    parts.append(_aliases("Other names: keys", lead, FILE))
    parts.append(_others())
    return "\n".join(parts)


def _section(title: str, lead: str, rows: Iterator[tuple[str, str, str]]) -> str:
    lines = [f"## {title}", "", lead, "", "| setting | default | meaning |", "| --- | --- | --- |"]
    lines += [f"| `{name}`{_mark(name)} | {default} | {meaning} |" for name, default, meaning in rows]
    return "\n".join([*lines, ""])


def _mark(name: str) -> str:
    return " ↻" if name in DYNAMIC else ""


def _struct_rows(struct: type[Settings]) -> Iterator[tuple[str, str, str]]:
    texts, defaults = meanings(struct), struct()
    for field, name in zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True):
        yield name, _shown(getattr(defaults, field)), texts[name]


def _topic_rows() -> Iterator[tuple[str, str, str]]:
    for name, known in sorted(SETTINGS.items()):
        if isinstance(known.owner, TopicSetting):
            effect = "" if known.owner.has_effect else " No effect."
            yield name, _shown(known.owner.default), f"`{known.owner.name}`: {known.owner.meaning}{effect}"


def _shown(value: object) -> str:
    if value is None or value == "":
        return ""
    if str(value) == str(NEVER_MS):
        return "never"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _aliases(title: str, lead: str, rows: tuple[Alias, ...]) -> str:
    lines = [f"## {title}", "", lead, "", "| name | means |", "| --- | --- |"]
    for row in rows:
        if row.setting is None:
            meaning = f"nothing here: {row.note}"
        else:
            meaning = f"`{row.setting}`" + (f", times {row.factor:,}" if row.factor != 1 else "")
        lines.append(f"| `{row.name}` | {meaning} |")
    return "\n".join([*lines, ""])


def _others() -> str:
    lines = [
        "## Other variables",
        "",
        f"They have the prefix and are not settings of a node (such as `{variable_of('num.partitions')}`).",
        "",
    ]
    lines += ["| variable | meaning |", "| --- | --- |"]
    lines += [f"| `{variable}` | {meaning} |" for variable, meaning in OTHERS.items()]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    print(page(), end="")
