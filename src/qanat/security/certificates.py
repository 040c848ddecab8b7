r"""X.509 certificates, as far as a broker reads them: the subject as a distinguished name, and the end of validity.

The subject is written as Java's `X500Principal.getName()` writes it (RFC 2253), because Kafka's ACLs and mapping rules
hold that text: the last RDN of the certificate first, the parts of a multi-valued RDN joined by `+`, `,=+<>#;"\`
escaped, a NUL as `\00`, an attribute without a short name as `1.2.840.113549.1.9.1=#1613...`.

Rule: bytes that are not what X.509 says raise `InvalidCertificateError`. A name is never cut or repaired: half a name
      could be another principal's.
"""

from __future__ import annotations

import binascii
from datetime import UTC, datetime

from msgspec import Struct

from qanat.model.errors import QanatError

_SEQUENCE, _SET, _OID, _VERSION = 0x30, 0x31, 0x06, 0xA0
_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18
_UTF8, _PRINTABLE, _IA5 = 0x0C, 0x13, 0x16
_TEXTS = (_UTF8, _PRINTABLE, _IA5)
_LENGTH_BYTES_MAX = 4
_ESCAPED = ',=+<>#;"\\'
_SHORT_NAMES = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The attributes that RFC 2253 writes by name."""
_BEGIN, _END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"


class InvalidCertificateError(QanatError):
    """Bytes that are no X.509 certificate."""


class Certificate(Struct, frozen=True):
    """What a broker knows of a certificate."""

    subject: str
    not_after_s: int
    """When it expires, in seconds since 1970."""


def certificates_in(pem: bytes) -> list[Certificate]:
    """Every certificate of a PEM text, in its order."""
    found: list[Certificate] = []
    rest = pem
    while _BEGIN in rest:
        text, separator, rest = rest.partition(_BEGIN)[2].partition(_END)
        if not separator:
            raise InvalidCertificateError("a certificate has no END line")
        try:
            der = binascii.a2b_base64(text)
        except binascii.Error:
            raise InvalidCertificateError("a certificate is not base64") from None
        found.append(read_certificate(der))
    return found


def read_certificate(der: bytes) -> Certificate:
    """The certificate in these bytes; raises `InvalidCertificateError`."""
    fields = _Values(_Values(_Values(der).take(_SEQUENCE)).take(_SEQUENCE))
    if fields.tag == _VERSION:
        fields.skip()
    for _ in ("serial number", "signature algorithm", "issuer"):
        fields.skip()
    validity = _Values(fields.take(_SEQUENCE))
    validity.skip()
    not_after_s = _seconds(validity)
    return Certificate(_distinguished_name(fields.take(_SEQUENCE)), not_after_s)


class _Values:
    """DER values one after another."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._data)

    @property
    def tag(self) -> int:
        """The tag of the next value."""
        return self._byte(self._at)

    def take(self, tag: int) -> bytes:
        """The content of the next value, which must have this tag."""
        if self.tag != tag:
            raise InvalidCertificateError(f"tag {self.tag} stands where {tag} should")
        return self.take_any()[1]

    def skip(self) -> None:
        self.take_any()

    def take_any(self) -> tuple[int, bytes, bytes]:
        """Tag, content and whole encoding of the next value."""
        start, tag = self._at, self.tag
        size, at = self._byte(start + 1), start + 2
        if size & 0x80:
            count = size & 0x7F
            if not 1 <= count <= _LENGTH_BYTES_MAX:
                raise InvalidCertificateError("a length is not in DER")
            self._byte(at + count - 1)
            size, at = int.from_bytes(self._data[at : at + count]), at + count
        end = at + size
        if end > len(self._data):
            raise InvalidCertificateError("a value is longer than the certificate")
        self._at = end
        return tag, self._data[at:end], self._data[start:end]

    def _byte(self, at: int) -> int:
        if at >= len(self._data):
            raise InvalidCertificateError("the certificate ends too early")
        return self._data[at]


def _distinguished_name(encoded: bytes) -> str:
    rdns, parts = _Values(encoded), list[str]()
    while not rdns.is_at_end:
        attributes, texts = _Values(rdns.take(_SET)), list[str]()
        while not attributes.is_at_end:
            texts.append(_attribute(attributes.take(_SEQUENCE)))
        parts.append("+".join(texts))
    return ",".join(reversed(parts))


def _attribute(encoded: bytes) -> str:
    values = _Values(encoded)
    oid = _oid(values.take(_OID))
    tag, content, whole = values.take_any()
    name = _SHORT_NAMES.get(oid)
    if name is None or tag not in _TEXTS:
        return f"{name or oid}=#{whole.hex()}"
    try:
        return f"{name}={_escaped(content.decode('utf-8'))}"
    except UnicodeDecodeError:
        raise InvalidCertificateError(f"the value of {name} is not UTF-8") from None


def _escaped(text: str) -> str:
    first = len(text) - len(text.lstrip(" \r"))
    last = len(text.rstrip(" \r"))
    return "".join(_escaped_one(one, is_inside=first <= place < last) for place, one in enumerate(text))


def _escaped_one(one: str, *, is_inside: bool) -> str:
    if one == "\0":
        return "\\00"
    return f"\\{one}" if one in _ESCAPED or not is_inside else one


def _oid(encoded: bytes) -> str:
    if not encoded or encoded[-1] & 0x80:
        raise InvalidCertificateError("an object identifier ends too early")
    arcs, value = list[int](), 0
    for one in encoded:
        value = value << 7 | one & 0x7F
        if not one & 0x80:
            arcs.append(value)
            value = 0
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, (first, arcs[0] - 40 * first, *arcs[1:])))


def _seconds(values: _Values) -> int:
    tag, content, _ = values.take_any()
    form = {_UTC_TIME: "%y%m%d%H%M%SZ", _GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}.get(tag)
    try:
        if form is None:
            raise ValueError
        # Python takes 69 to 99 for the last century, RFC 5280 takes 50 to 99: no certificate lives that long.
        return int(datetime.strptime(content.decode("ascii"), form).replace(tzinfo=UTC).timestamp())
    except ValueError:
        raise InvalidCertificateError("the end of validity is no time") from None
