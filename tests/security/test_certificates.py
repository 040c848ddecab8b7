"""The subject of a certificate is written as Java writes it; nothing that is no certificate is read as one."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from qanat.security.certificates import InvalidCertificateError, certificates_in, read_certificate

KEY = ec.generate_private_key(ec.SECP256R1())
END = datetime(2031, 5, 17, 8, 30, 5, tzinfo=UTC)
Pair = tuple[x509.ObjectIdentifier, str]
CN, OU, O, C, EMAIL = (  # noqa: E741 - X.500's own names
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.COUNTRY_NAME,
    NameOID.EMAIL_ADDRESS,
)


def certificate(*rdns: list[Pair], kind: _ASN1Type = _ASN1Type.UTF8String, end: datetime = END) -> bytes:
    """A certificate with this subject, in DER."""
    name = x509.Name(
        [
            x509.RelativeDistinguishedName(
                [x509.NameAttribute(oid, value, kind, _validate=False) for oid, value in rdn]
            )
            for rdn in rdns
        ]
    )
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(x509.Name([x509.NameAttribute(CN, "another,name")]))
        .public_key(KEY.public_key())
        .serial_number(2**150 + 7)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(end)
        .sign(KEY, hashes.SHA256())
    )
    return made.public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("rdns", "written"),
    [
        ([[(CN, "alice")]], "CN=alice"),
        ([[(C, "DE")], [(O, "Qanat")], [(OU, "dev")], [(CN, "alice")]], "CN=alice,OU=dev,O=Qanat,C=DE"),
        ([[(CN, "alice")], [(OU, "dev")]], "OU=dev,CN=alice"),
        ([[(OU, "a")], [(OU, "b")], [(CN, "x")]], "CN=x,OU=b,OU=a"),
        ([[(CN, "alice,OU=admins")]], "CN=alice\\,OU\\=admins"),
        ([[(CN, 'a+b<c>d#e;f"g\\h')]], 'CN=a\\+b\\<c\\>d\\#e\\;f\\"g\\\\h'),
        ([[(CN, " alice ")]], "CN=\\ alice\\ "),
        ([[(CN, "  ")]], "CN=\\ \\ "),
        ([[(CN, "admin\0.example.org")]], "CN=admin\\00.example.org"),
        ([[(CN, "Ünal 漢")]], "CN=Ünal 漢"),
        ([[(EMAIL, "a@b.c")], [(CN, "x")]], "CN=x,1.2.840.113549.1.9.1=#0c0561" + b"@b.c".hex()),
        ([], ""),
    ],
)
def test_a_subject_is_written_as_java_writes_it(rdns: list[list[Pair]], written: str) -> None:
    assert read_certificate(certificate(*rdns)).subject == written


def test_parts_of_one_rdn_are_joined_by_a_plus_and_are_not_rdns_of_their_own() -> None:
    both = read_certificate(certificate([(CN, "alice"), (OU, "admins")])).subject

    assert sorted(both.split("+")) == ["CN=alice", "OU=admins"]
    assert both != read_certificate(certificate([(OU, "admins")], [(CN, "alice")])).subject


def test_a_value_of_another_text_type_is_written_in_hexadecimal() -> None:
    assert read_certificate(certificate([(CN, "ab")], kind=_ASN1Type.BMPString)).subject == "CN=#1e0400610062"


@pytest.mark.parametrize("end", [END, datetime(2055, 1, 2, 3, 4, 5, tzinfo=UTC)])
def test_the_end_of_validity_is_read_in_both_forms(end: datetime) -> None:
    assert read_certificate(certificate([(CN, "x")], end=end)).not_after_s == int(end.timestamp())


def test_every_certificate_of_a_chain_is_read() -> None:
    chain = b"".join(
        x509.load_der_x509_certificate(certificate([(CN, name)])).public_bytes(Encoding.PEM) for name in ("a", "b")
    )

    assert [one.subject for one in certificates_in(b"a comment\n" + chain)] == ["CN=a", "CN=b"]
    assert certificates_in(b"no certificate") == []


@pytest.mark.parametrize(
    "pem", [b"-----BEGIN CERTIFICATE-----\nMIIB", b"-----BEGIN CERTIFICATE-----\nM\n-----END CERTIFICATE-----"]
)
def test_a_torn_pem_is_refused(pem: bytes) -> None:
    with pytest.raises(InvalidCertificateError):
        certificates_in(pem)


WHOLE = certificate([(OU, "dev")], [(CN, "alice")])


@pytest.mark.parametrize("size", range(120))
def test_a_certificate_that_was_cut_is_refused(size: int) -> None:
    with pytest.raises(InvalidCertificateError):
        read_certificate(WHOLE[:size])


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_a_changed_byte_gives_another_name_or_an_error_and_never_a_crash(place: int, by: int) -> None:
    changed = bytearray(WHOLE)
    changed[place] ^= by
    with contextlib.suppress(InvalidCertificateError):
        read_certificate(bytes(changed))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(InvalidCertificateError):
        read_certificate(data)
