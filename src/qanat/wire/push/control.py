"""The payloads of control frames: JSON objects. Unknown fields are ignored, so that either side may be newer.

Every list and text has a bound, so that a payload within its length limit makes no more objects than it could need.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from qanat.model.errors import MalformedMessageError
from qanat.model.push_refreshes import PushRefresh

VERSION = 1
"""The newest version of the protocol. A client that names none speaks the plain dialect (`plain`)."""
FEATURES = ("batches", "queue", "idempotent", "refresh")
TOPICS_MAX = 100
CREDIT_RECORDS, CREDIT_BYTES = 1_000, 1024 * 1024
"""What a subscription grants where it does not say."""

Name = Annotated[str, Meta(max_length=256)]
Text = Annotated[str, Meta(max_length=64 * 1024)]
Topics = Annotated[list[Name], Meta(max_length=TOPICS_MAX)]
Features = Annotated[list[Name], Meta(max_length=100)]
Count = Annotated[int, Meta(ge=0, le=2**40)]
Offset = Annotated[int, Meta(ge=-2, le=2**63 - 1)]
Epoch = Annotated[int, Meta(ge=-1, lt=2**31)]
Number = Annotated[int, Meta(ge=0, lt=2**31)]
Form = Annotated[int, Meta(ge=0, le=255)]


class Mode(Enum):
    """Who gets a record: one member of the group in order; any member of the queue; every subscriber."""

    LOG = "log"
    QUEUE = "queue"
    ALL = "all"


class Verdict(Enum):
    """What a consumer of a queue says about a record."""

    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"
    RENEW = "renew"


class Start(Enum):
    """Where a subscription begins without a position."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Position(Struct, frozen=True, omit_defaults=True):
    """An offset of a partition: the next one to read, after a record of that leader epoch."""

    topic: Name
    partition: Number
    offset: Offset
    epoch: Epoch = -1
    topic_id: Name = ""
    """The topic that this is about, where it is known: another one may have the same name later."""


Positions = Annotated[list[Position], Meta(max_length=100_000)]


class Credit(Struct, frozen=True):
    """How much may be on its way without an acknowledgement."""

    records: Count = CREDIT_RECORDS
    bytes: Count = CREDIT_BYTES


class Subscribe(Struct, frozen=True, omit_defaults=True):
    """SUBSCRIBE: the topics, and how their records are wanted."""

    v: Count = 0
    features: Features = []
    client: Name = ""
    topic: Name = ""
    topics: Topics = []
    group: Name = ""
    member: Name = ""
    """In mode `log`: the member's id in the group, which its client has drawn and keeps for all its connections."""
    mode: Mode | None = None
    start: Start = Start.EARLIEST
    positions: Positions = []
    credit: Credit = Credit()
    forms: Annotated[list[Form], Meta(max_length=16)] = []

    @property
    def wanted(self) -> tuple[str, ...]:
        """The topics, in the order by which DATA names them."""
        return tuple(self.topics) or ((self.topic,) if self.topic else ())

    @property
    def chosen_mode(self) -> Mode:
        return self.mode or (Mode.LOG if self.group else Mode.ALL)


class Producer(Struct, frozen=True, omit_defaults=True):
    """A producer whose repeated DATA is recognized; id and epoch are those of its first connection."""

    id: Annotated[int, Meta(ge=-1, le=2**63 - 1)] = -1
    epoch: Annotated[int, Meta(ge=-1, lt=2**15)] = -1


class Heartbeat(Struct, frozen=True, omit_defaults=True):
    """HEARTBEAT: a sign of life; as the first frame, who the client is; with a token, a step of its authentication."""

    v: Count = 0
    features: Features = []
    client: Name = ""
    mechanism: Name = ""
    token: Text | None = None
    """Base64."""
    topics: Topics = []
    """Topics that a producer writes to, in the order by which its DATA names them."""
    producer: Producer | None = None
    ask: Name = ""
    """`consumers` asks who is connected, `refreshes` how far refreshes are; `refresh` begins one, `cancel-refresh` ends
    one."""
    group: Name = ""
    topic: Name = ""
    positions: Positions = []
    """Where a refresh begins; without them with the first record of every partition."""


class Login(Struct, frozen=True):
    """What counts of a HEARTBEAT before authentication: of other fields nothing is kept, however many there are."""

    v: Count = 0
    client: Name = ""
    mechanism: Name = ""
    token: Text | None = None


class ConnectedConsumer(Struct, frozen=True):
    """A subscriber of a broker, for people who look."""

    peer: Text
    client: Text
    principal: Text
    topics: list[Text]
    group: Text
    mode: Mode
    out_records: Count
    """Records that are sent and not acknowledged."""
    credit_records: Count
    lag: Count
    """Records that can be read and are not acknowledged; in a queue, those that the group has not finished."""
    last_ack: Count
    """The last frame that was acknowledged."""
    refresh: Text = ""
    """How far its refreshes are."""
    unknown_lags: Count = 0
    """Partitions of which the lag is not known: their leaders did not answer in time."""


class Ack(Struct, frozen=True, omit_defaults=True):
    """ACK: the frame of that id is done. Which fields there are depends on that frame."""

    verdict: Verdict | None = None
    credit: Credit | None = None
    error: Name = ""
    message: Text = ""
    partition: Annotated[int, Meta(ge=-1, lt=2**31)] = -1
    offset: Annotated[int, Meta(ge=-1, le=2**63 - 1)] = -1
    v: Count = 0
    features: Features = []
    token: Text | None = None
    is_authenticated: bool = msgspec.field(name="authenticated", default=False)
    lifetime_ms: Count = 0
    heartbeat_ms: Count = 0
    partitions: dict[Name, Number] = {}
    topic_ids: dict[Name, Name] = {}
    """In the answer to SUBSCRIBE: the ids of the topics, which tell one from another of the same name."""
    producer: Producer | None = None
    mode: Mode | None = None
    consumers: list[ConnectedConsumer] = []
    positions: Positions = []
    """In the answer to RESET: how far the unfinished generation of that refresh is."""
    refreshes: list[PushRefresh] = []


class CommitOffset(Struct, frozen=True, omit_defaults=True):
    """COMMIT_OFFSET: positions of a group; the plain dialect names one."""

    positions: Positions = []
    topic: Name = ""
    partition: Number = 0
    offset: Offset = -1


class Range(Struct, frozen=True):
    """What a refresh replays of a partition: from its start up to its end, which is not part of it."""

    partition: Number
    start: Offset
    end: Offset


Ranges = Annotated[list[Range], Meta(max_length=100_000)]


class Reset(Struct, frozen=True, omit_defaults=True):
    """RESET: what was received from an offset on is void; with ranges, a refresh begins. Records follow its ACK."""

    why: Name
    topic: Name = ""
    partition: Annotated[int, Meta(ge=-1, lt=2**31)] = -1
    offset: Offset = -1
    epoch: Epoch = -1
    refresh: Name = ""
    ranges: Ranges = []
    retry: Count = 0
    topic_id: Name = ""
    """With `recreated`: the topic that has the name now."""


class Ready(Struct, frozen=True, omit_defaults=True):
    """READY: every record of a refresh up to these positions is acknowledged."""

    refresh: Name
    topic: Name = ""
    positions: Positions = []
    retry: Count = 0


class Disconnect(Struct, frozen=True, omit_defaults=True):
    """DISCONNECT: the last frame of a side, with its reason."""

    reason: Name = ""
    message: Text = ""


Control = Subscribe | Heartbeat | Ack | CommitOffset | Reset | Ready | Disconnect
Kind = TypeVar("Kind", Subscribe, Heartbeat, Login, Ack, CommitOffset, Reset, Ready, Disconnect)

_encoder = msgspec.json.Encoder()
_decoders = {
    kind: msgspec.json.Decoder(kind)
    for kind in (Subscribe, Heartbeat, Login, Ack, CommitOffset, Reset, Ready, Disconnect)
}


def encode_control(value: Control) -> bytes:
    return _encoder.encode(value)


def decode_control(kind: type[Kind], payload: memoryview | bytes) -> Kind:
    """Read a payload; an empty one has the default of every field. Raises `MalformedMessageError`."""
    if not len(payload):
        payload = b"{}"
    try:
        return _decoders[kind].decode(payload)  # type: ignore[return-value]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
        raise MalformedMessageError(f"the payload of {kind.__name__} cannot be read: {fault}") from None
