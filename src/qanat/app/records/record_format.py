r"""Record format of `-f`: the percent format of kcat and rpk.

    %t topic    %p partition   %o offset      %k key      %K key length    %s %v value   %S %V value length
    %T %d timestamp in ms      %h headers     %H number of headers         %% a percent sign
    \n \t \r \0 \\ \xNN        as in C

`%k{hex}`, `%v{hex}`, `%k{base64}` and `%v{base64}` write bytes as text. The length of a null is -1.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.terminal.printable import printable_content
from qanat.wire.records import Record

Piece = Callable[[str, int, Record], bytes]

_TOKEN = re.compile(r"%(?P<letter>.)(?:\{(?P<form>\w+)\})?|\\x(?P<hex>[0-9a-fA-F]{2})|\\(?P<escape>.)", re.DOTALL)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_FORMS: dict[str, Callable[[bytes], bytes]] = {
    "hex": lambda content: content.hex().encode(),
    "base64": base64.b64encode,
}
_PIECES: dict[str, Piece] = {
    "t": lambda topic, partition, record: topic.encode(),
    "p": lambda topic, partition, record: b"%d" % partition,
    "o": lambda topic, partition, record: b"%d" % record.offset,
    "k": lambda topic, partition, record: record.key or b"",
    "K": lambda topic, partition, record: _length(record.key),
    "v": lambda topic, partition, record: record.value or b"",
    "V": lambda topic, partition, record: _length(record.value),
    "d": lambda topic, partition, record: b"%d" % record.timestamp,
    "h": lambda topic, partition, record: _headers(record),
    "H": lambda topic, partition, record: b"%d" % len(record.headers),
    "%": lambda topic, partition, record: b"%",
}
_PIECES |= {"s": _PIECES["v"], "S": _PIECES["V"], "T": _PIECES["d"]}


class RecordFormat:
    """A parsed format; with `is_escaped`, control characters of records are escaped for a terminal."""

    def __init__(self, text: str, *, is_escaped: bool = False) -> None:
        self._pieces: list[Piece | bytes] = []
        position = 0
        for token in _TOKEN.finditer(text):
            self._pieces += [text[position : token.start()].encode(), _piece(token, is_escaped)]
            position = token.end()
        self._pieces.append(text[position:].encode())

    def encode(self, topic: str, partition: int, record: Record) -> bytes:
        pieces = self._pieces
        return b"".join([piece if isinstance(piece, bytes) else piece(topic, partition, record) for piece in pieces])


def _piece(token: re.Match[str], is_escaped: bool) -> Piece | bytes:
    if token["hex"]:
        return bytes.fromhex(token["hex"])
    if token["escape"]:
        if token["escape"] not in _ESCAPES:
            raise WrongArgumentError(f"-f knows no \\{token['escape']}: there are \\n \\t \\r \\0 \\\\ \\xNN")
        return _ESCAPES[token["escape"]]
    piece = _PIECES.get(token["letter"])
    if piece is None:
        raise WrongArgumentError(f"-f knows no %{token['letter']}: there are {' '.join(f'%{one}' for one in _PIECES)}")
    if token["form"] is None:
        return _escaped(piece) if is_escaped else piece
    form = _FORMS.get(token["form"])
    if form is None:
        raise WrongArgumentError(f"-f knows no {{{token['form']}}}: there are {{hex}} and {{base64}}")
    return lambda topic, partition, record: form(piece(topic, partition, record))


def _escaped(piece: Piece) -> Piece:
    return lambda topic, partition, record: printable_content(piece(topic, partition, record))


def _length(content: bytes | None) -> bytes:
    return b"-1" if content is None else b"%d" % len(content)


def _headers(record: Record) -> bytes:
    return b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers)
