"""Security settings of clients: TLS and SASL, in the names of Kafka's and librdkafka's clients."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from tests.connection.certificates import certificates

from qanat.connection.security import UNPROTECTED, Credentials, Pem, Security, Tls, security_of
from qanat.connection.tls import context_of
from qanat.model.errors import InvalidSettingError

SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
KNOWN = {"sasl.username": "alice", "sasl.password": "hunter2"}
JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="hun\\"ter,2=";'


def test_nothing_said_is_nothing_done() -> None:
    assert security_of({"group.id": "g"}) == UNPROTECTED
    assert security_of({"security.protocol": "plaintext"}).protocol == "PLAINTEXT"


def test_names_of_both_families_say_the_same() -> None:
    ours = security_of({**SASL, **KNOWN})
    librdkafkas = security_of({"security.protocol": "sasl_plaintext", "sasl.mechanisms": "plain", **KNOWN})

    assert ours == librdkafkas == Security(Credentials("PLAIN", "alice", "hunter2"))


def test_javas_way_to_say_a_password_is_read() -> None:
    found = security_of({**SASL, "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": JAAS})

    assert found.credentials == Credentials("SCRAM-SHA-512", "alice", 'hun"ter,2=')


def test_stores_in_pem_are_certificates_under_another_name() -> None:
    found = security_of({"security.protocol": "SSL", "ssl.truststore.location": "/ca", "ssl.keystore.location": "/me"})

    assert found.protocol == "SSL"
    assert found.tls == Tls(
        trusted=Pem("ssl.truststore.location", "/ca"),
        certificate=Pem("ssl.keystore.location", "/me"),
        key=Pem("ssl.keystore.location", "/me"),
    )


def test_a_secret_is_never_shown_and_still_travels() -> None:
    pem = "-----BEGIN PRIVATE KEY-----\nhunter2"
    found = security_of(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            **KNOWN,
            "ssl.key.pem": pem,
            "ssl.certificate.pem": "-----BEGIN CERTIFICATE-----",
            "ssl.key.password": "hunter2",
        }
    )

    assert "hunter2" not in repr(found)
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"security.protocol": "TLS"}, "security.protocol is 'TLS', but must be one of PLAINTEXT, SSL"),
        ({"security.protocol": "SASL_PLAINTEXT", **KNOWN}, "sasl.mechanism is missing: one of PLAIN"),
        ({**SASL, "sasl.mechanism": "GSSAPI", **KNOWN}, "sasl.mechanism is 'GSSAPI', but must be one of PLAIN"),
        ({**SASL, "sasl.username": "alice"}, "sasl.password is missing"),
        ({**SASL, "sasl.password": "hunter2"}, "sasl.username is missing"),
        ({**SASL, "sasl.jaas.config": "hunter2"}, "sasl.jaas.config cannot be read"),
        ({**SASL, "sasl.mechanisms": "PLAIN", **KNOWN}, "say the same"),
        (KNOWN, "sasl.username has no effect without kafka.security.protocol: set it to SASL_PLAINTEXT or SASL_SSL"),
        ({"ssl.ca.location": "/ca"}, "set it to SSL or SASL_SSL"),
        ({"security.protocol": "SSL", "ssl.truststore.type": "JKS"}, "only PEM is read here"),
        ({"security.protocol": "SSL", "ssl.key.location": "/key"}, "needs the certificate"),
        ({"security.protocol": "SSL", "enable.ssl.certificate.verification": "maybe"}, "must be true or false"),
    ],
)
def test_what_is_wrong_is_told_without_the_secret(settings: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidSettingError, match=told) as raised:
        security_of(settings, "kafka.")

    assert "hunter2" not in str(raised.value)
    assert str(raised.value).startswith("kafka.")


def test_certificates_come_from_files_and_from_text(tmp_path: Path) -> None:
    made = certificates(tmp_path)
    by_file = Tls(Pem("ca", str(made.authority)), Pem("cert", str(made.client_chain)), Pem("key", str(made.client_key)))
    by_text = Tls(Pem("ca", text=made.authority.read_text()), Pem("cert", text=made.client.read_text()))

    assert len(context_of(by_file).get_ca_certs()) == len(context_of(by_text).get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "ssl.ca.location .*: No such file"),
        (b"\xfe\xed\xfe\xed\0\0", "Java key store"),
        (b"hello", "is not PEM"),
        (b"-----BEGIN CERTIFICATE-----\nhello", "no certificate can be read"),
    ],
)
def test_a_file_that_is_no_certificate_is_named(tmp_path: Path, content: bytes | None, told: str) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(InvalidSettingError, match=told):
        context_of(Tls(Pem("ssl.ca.location", str(path))))


def test_a_key_of_somebody_else_is_refused(tmp_path: Path) -> None:
    made = certificates(tmp_path)

    with pytest.raises(InvalidSettingError, match=r"ssl.key.location: the key cannot be used with the certificate"):
        context_of(
            Tls(None, Pem("ssl.certificate.location", str(made.client)), Pem("ssl.key.location", str(made.server)))
        )
