"""Valid requests, and what becomes of them: by a seed a byte changed, a piece lost or doubled; or many rows."""

from __future__ import annotations

import struct
from random import Random

from tests.wire.kafka.forgeries import Forge
from tools.codec import api_source
from tools.codec.schema import Layout

from qanat.api.api_table import SERVED
from qanat.wire.kafka.headers import frame_request

_ODD_NUMBERS = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x00\x00\x00\x00",
    b"\xff\xfe",
    b"\x7f",
)
_NAMES = (b"t", b"..", b"a b", b"__consumer_offsets", b"x" * 249, b"\xc3\xa9", b"\r\n", b"\x00")


def valid_frames() -> list[bytes]:
    """Every API in every version, with empty and with filled arrays."""
    schemas = {api.name: api for api in api_source.all_apis()}
    frames = []
    for served in SERVED.values():
        layouts = schemas[served.api.name].request.layouts
        for version in range(served.first_version, served.last_version + 1):
            for fullness in (0, 1, 2):
                forged = Forge(fullness)
                forged.struct(layouts[version])
                frames.append(b"".join(frame_request(served.key, version, 1, "fuzz", [bytes(forged.data)])))
    return frames


class Mutator:
    """Draws mutated frames; the same seed draws the same."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._valid = valid_frames()

    def draw(self) -> bytes:
        random = self._random
        payload = bytearray(random.choice(self._valid)[4:])
        for _ in range(random.choice((0, 1, 1, 2, 3, 8))):
            payload = self.changed(payload)
        size = len(payload) if random.random() < 0.97 else random.randrange(2 * len(payload) + 1)
        return struct.pack(">i", size) + payload

    def changed(self, data: bytes | bytearray) -> bytearray:
        """The data with one mutation."""
        random, payload = self._random, bytearray(data)
        at = random.randrange(len(payload)) if payload else 0
        match random.randrange(7):
            case 0:
                payload[at : at + 1] = bytes([random.randrange(256)])
            case 1:
                odd = random.choice(_ODD_NUMBERS)
                payload[at : at + len(odd)] = odd
            case 2:
                payload[at:at] = random.randbytes(random.randrange(1, 20))
            case 3:
                del payload[at : at + random.randrange(1, 20)]
            case 4:
                piece = payload[at : at + random.randrange(1, 200)]
                payload[at:at] = piece * random.randrange(1, 50)
            case 5:
                other = random.choice(self._valid)[4:]
                payload[at:] = other[random.randrange(len(other)) :]
            case 6:
                name = random.choice(_NAMES)
                payload[at : at + 2] = bytes([len(name) + 1]) + name
        return payload

    def number(self, stop: int) -> int:
        return self._random.randrange(stop)


def swollen(layout: Layout, count: int) -> bytes | None:
    """A request whose first array has so many elements, as small as they get; None where it has no array."""
    forged = Forge()
    arrays = [item for item in layout.plain if item.is_array]
    if not arrays:
        return None
    for item in layout.plain:
        if item is not arrays[0]:
            forged.field(item, layout.is_flexible)
            continue
        element = Forge()
        element.element(item, layout.is_flexible)
        forged.data += _uvarint(count + 1) if layout.is_flexible else struct.pack(">i", count)
        forged.data += bytes(element.data) * count
    if layout.is_flexible:
        forged.tags(layout)
    return bytes(forged.data)


def _uvarint(value: int) -> bytes:
    spelled = bytearray()
    while value > 0x7F:
        spelled.append(value & 0x7F | 0x80)
        value >>= 7
    spelled.append(value)
    return bytes(spelled)
