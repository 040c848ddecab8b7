"""The generated parts of docs/security/clients.md: who logs in how, and with which settings.

    python -m tests.clients.logins.page

The settings are those of the tests, with the names and paths of an example.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.clients.logins import curl, librdkafka, programs, python_clients
from tests.clients.logins.login import MECHANISMS, MTLS, OAUTHBEARER, Login, example
from tests.clients.logins.matrix import MATRIX, SPARK, Cannot
from tools.kafka_page import replaced

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "security" / "clients.md"
_CLIENTS = ROOT / "tests" / "clients"
Settings = Callable[[Login], Mapping[str, str]]

_PROVIDER = (
    "`provider` is an object of your subclass of `kafka.net.sasl.oauth.AbstractTokenProvider`; its `token()` returns "
    "the token."
)
_ASYNC_PROVIDER = (
    '`context` is `ssl.create_default_context(cafile="/etc/qanat/authority.pem")`, for mTLS after '
    '`context.load_cert_chain("/etc/qanat/alice-chain.pem", "/etc/qanat/alice-key.pem")`. `provider` is an object of '
    "your subclass of `aiokafka.abc.AbstractTokenProvider`; its `async def token()` returns the token."
)
_ALLOWED = (
    "From 4.0 on, Java asks a token endpoint only where the process was started with "
    "`-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://login.example/token`."
)


def login_table() -> str:
    """A row per client; a yes links to the settings."""
    rows = [[f"[{client}](#{_anchor(client)})", *map(_cell, rows.values())] for client, rows in MATRIX.items()]
    return _table(["client", *MECHANISMS], rows)


def _cell(row: object) -> str:
    return f"no: {row.reason}" if isinstance(row, Cannot) else "yes"


def http_table() -> str:
    rows = [[way, f"`curl {shlex.join(curl.options(way, example(MTLS)))} …`"] for way in curl.WAYS]
    return _table(["curl with", "command"], rows)


def settings_text() -> str:
    """The settings of every client, a section each."""
    sections = {
        "confluent-kafka": _properties(librdkafka.settings),
        "kcat": "`-X NAME=VALUE` for each of the properties of [confluent-kafka](#confluent-kafka).",
        "kafka-python": f"{_PROVIDER}\n\n{_arguments(python_clients.kafka_python_settings)}",
        "aiokafka": f"{_ASYNC_PROVIDER}\n\n{_arguments(python_clients.settings, tls='ssl_context=context,')}",
        "kafkajs": _source("js/logins.js", "javascript"),
        "Java kafka-clients": f"{_ALLOWED}\n\n{_properties(programs.java_settings)}",
        SPARK: "The options of a reader or writer are the properties of [Java kafka-clients](#java-kafka-clients), "
        "with `kafka.` before each name.",
        "sarama": _source("go/sarama/login.go", "go"),
        "franz-go": _source("go/franz/login.go", "go"),
        "TLS in Go": "`login.TLS` of both programs:\n\n" + _source("go/lines/login.go", "go"),
    }
    return "\n\n".join(f"### {name}\n\n{text}" for name, text in sections.items())


def _properties(settings: Settings) -> str:
    lines_of = {
        mechanism: [f"{name}={value}" for name, value in settings(example(mechanism)).items()]
        for mechanism in MECHANISMS
    }
    return f"```properties\n{_blocks(lines_of)}\n```"


def _arguments(settings: Settings, *, tls: str = "") -> str:
    """Arguments in Python; those that are objects by the names that the page gives them."""
    lines_of = {
        mechanism: [f'{name}="{value}",' for name, value in settings(example(mechanism)).items()]
        for mechanism in MECHANISMS
    }
    for lines in lines_of.values():
        lines += [tls] if tls else []
    lines_of[OAUTHBEARER].append("sasl_oauth_token_provider=provider,")
    return f"```text\n{_blocks(lines_of)}\n```"


def _blocks(lines_of: Mapping[str, Sequence[str]]) -> str:
    """What all mechanisms have, then the rest of each."""
    first, *others = lines_of.values()
    common = [line for line in first if all(line in other for other in others)]
    blocks = {"all": common} | {
        mechanism: [line for line in lines if line not in common] for mechanism, lines in lines_of.items()
    }
    return "\n\n".join("\n".join([f"# {name}", *lines]) for name, lines in blocks.items())


def _source(path: str, language: str) -> str:
    """The part of a program that has its settings."""
    text = (_CLIENTS / path).read_text().replace("\t", "    ")
    _, _, rest = text.partition("// begin of settings\n")
    part, found, _ = rest.partition("// end of settings\n")
    assert found, path
    return f"```{language}\n{part.strip()}\n```"


def _anchor(heading: str) -> str:
    """As the documentation's generator makes it.

    >>> _anchor("Spark's Kafka connector")
    'sparks-kafka-connector'
    """
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def _table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rows])


def written(page: str) -> str:
    """The page with its generated parts as they are now."""
    for name, text in (("logins", login_table()), ("http", http_table()), ("settings", settings_text())):
        page = replaced(page, name, text)
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
