"""SCRAM on the broker's side: a right password lets in, and no altered message does."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from qanat.connection.sasl import ScramDialogue as ClientDialogue
from qanat.security.authentication import Accepted, Challenge, Principal, Refused
from qanat.security.scram import (
    HASHES,
    ITERATIONS_MIN,
    SALT_BYTES,
    Scram,
    ScramDialogue,
    ScramVerifier,
    decoded_name,
    verifier_of,
)

MECHANISMS = list(HASHES)
NAMES = ("alice", "a,b=c", "ü")
PASSWORD = "pencil, =ü"


def scram(mechanism: str = "SCRAM-SHA-256", secret: bytes = b"s" * 32, nonce: str = "broker") -> Scram:
    verifiers = {name: verifier_of(mechanism, PASSWORD, b"0123456789abcdef", ITERATIONS_MIN) for name in NAMES}
    return Scram(mechanism, verifiers.get, lambda: secret, lambda: nonce)


def client(mechanism: str, name: str, password: str) -> ClientDialogue:
    return ClientDialogue(HASHES[mechanism], name, password, "client")


def exchanged(server: Scram, name: str, password: str) -> tuple[ClientDialogue, ScramDialogue, bytes]:
    """Both ends after the broker's first message, and the client's final one."""
    speaking, dialogue = client(server.mechanism, name, password), server.begin()
    challenge = dialogue.step(speaking.begin())
    assert isinstance(challenge, Challenge)
    final = speaking.step(challenge.token)
    assert final is not None
    return speaking, dialogue, final


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", NAMES)
def test_a_right_password_lets_in_and_the_broker_proves_itself(mechanism: str, name: str) -> None:
    speaking, dialogue, final = exchanged(scram(mechanism), name, PASSWORD)
    outcome = dialogue.step(final)

    assert isinstance(outcome, Accepted)
    assert outcome.principal == Principal(name)
    assert speaking.step(outcome.token) is None  # It raises where the broker's proof is wrong.


def test_the_example_of_rfc_7677_is_answered_byte_for_byte() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    verifier = verifier_of("SCRAM-SHA-256", "pencil", salt, 4096)
    server = Scram("SCRAM-SHA-256", {"user": verifier}.get, lambda: b"s", lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    dialogue = server.begin()

    assert dialogue.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == Challenge(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    outcome = dialogue.step(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert outcome == Accepted(Principal("user"), b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("name", "password"), [("alice", "wrong"), ("nobody", PASSWORD), ("nobody", "")])
def test_a_wrong_password_and_an_unknown_name_get_equally_far(mechanism: str, name: str, password: str) -> None:
    _, dialogue, final = exchanged(scram(mechanism), name, password)
    outcome = dialogue.step(final)

    assert isinstance(outcome, Refused)
    assert outcome.reason == f"unknown name or wrong password for {name!r}"


def test_an_unknown_name_has_the_same_salt_on_every_broker() -> None:
    def answer(server: Scram, name: str) -> dict[str, str]:
        challenge = server.begin().step(client(server.mechanism, name, "x").begin())
        assert isinstance(challenge, Challenge)
        return dict(part.split("=", 1) for part in challenge.token.decode().split(","))

    one, other = scram(nonce="one"), scram(nonce="other")
    assert answer(one, "nobody")["s"] == answer(other, "nobody")["s"]
    assert answer(one, "nobody")["s"] != answer(one, "anybody")["s"]
    assert answer(one, "nobody")["s"] != answer(scram(secret=b"t" * 32), "nobody")["s"]
    known, unknown = answer(one, "alice"), answer(one, "nobody")
    assert known["i"] == unknown["i"]
    assert len(base64.b64decode(known["s"])) == len(base64.b64decode(unknown["s"])) == SALT_BYTES


def test_the_verifier_of_an_unknown_name_lets_no_one_in() -> None:
    """Not even a client that could compute it."""
    server = scram()
    fake, is_known = server.known_or_fake("nobody")

    assert not is_known
    assert hashlib.sha256(fake.server_key).digest() != fake.stored_key
    assert not server.is_password("nobody", PASSWORD)
    assert server.is_password("alice", PASSWORD)
    assert not server.is_password("alice", "wrong")


def flipped(text: str) -> str:
    raw = bytearray(base64.b64decode(text))
    raw[0] ^= 1
    return base64.b64encode(bytes(raw)).decode()


@pytest.mark.parametrize("field", ["c", "r", "p"])
@pytest.mark.parametrize("change", ["flipped", "empty", "longer", "missing"])
def test_an_altered_final_message_is_refused(field: str, change: str) -> None:
    _, dialogue, final = exchanged(scram(), "alice", PASSWORD)
    parts = dict(part.split("=", 1) for part in final.decode().split(","))
    match change:
        case "flipped":
            parts[field] = "x" + parts[field][1:] if field == "r" else flipped(parts[field])
        case "empty":
            parts[field] = ""
        case "longer":
            parts[field] += "AAAA"
        case "missing":
            del parts[field]
    altered = ",".join(f"{name}={value}" for name, value in parts.items())

    assert isinstance(dialogue.step(altered.encode()), Refused)


def test_a_final_message_cannot_be_replayed() -> None:
    _, dialogue, final = exchanged(scram(nonce="first"), "alice", PASSWORD)
    assert isinstance(dialogue.step(final), Accepted)
    _, again, _ = exchanged(scram(nonce="second"), "alice", PASSWORD)

    assert isinstance(again.step(final), Refused)


def proved(password: str, first_bare: bytes, challenge: bytes, unproven: bytes) -> bytes:
    """A final message whose proof covers what it says, as a client makes it that knows the password."""
    fields = dict(part.split(b"=", 1) for part in challenge.split(b","))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(fields[b"s"]), int(fields[b"i"]))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    spoken = b",".join((first_bare, challenge, unproven))
    signature = hmac.digest(hashlib.sha256(client_key).digest(), spoken, "sha256")
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    return unproven + b",p=" + base64.b64encode(proof)


@pytest.mark.parametrize(
    ("unproven", "reason"),
    [
        (b"c=biws,r=clientbroker", None),
        (b"c=biws,r=client", "another nonce"),
        (b"c=biws,r=clientbroke", "another nonce"),
        (b"c=biws,r=clientbrokerx", "another nonce"),
        (b"c=biws,r=clientearlier", "another nonce"),
        (b"c=eSws,r=clientbroker", "another channel binding"),
        (b"c=cD10bHMtdW5pcXVlLCw=,r=clientbroker", "another channel binding"),
    ],
)
def test_another_nonce_or_binding_is_refused_though_its_proof_is_right(unproven: bytes, reason: str | None) -> None:
    """CVE-2024-56128: the proof alone does not show that the nonce is that of this exchange."""
    dialogue = scram().begin()
    challenge = dialogue.step(b"n,,n=alice,r=client")
    assert isinstance(challenge, Challenge)
    outcome = dialogue.step(proved(PASSWORD, b"n=alice,r=client", challenge.token, unproven))

    assert isinstance(outcome, Accepted if reason is None else Refused)
    if isinstance(outcome, Refused):
        assert reason is not None
        assert reason in outcome.reason


def test_only_the_nonce_of_the_client_is_not_enough() -> None:
    """CVE-2024-56128: the broker must compare the whole nonce."""
    _, dialogue, final = exchanged(scram(), "alice", PASSWORD)

    assert isinstance(dialogue.step(final.replace(b"r=clientbroker", b"r=client")), Refused)


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"n,,",
        b"n=alice,r=client",
        b"p=tls-unique,,n=alice,r=client",
        b"n,,n=,r=client",
        b"n,,n=al=ice,r=client",
        b"n,,n=al=2cice,r=client",
        b"n,,n=alice,r=",
        b"n,,n=alice,r=cl\x01ient",
        "n,,n=alice,r=clïent".encode(),
        b"n,,m=must,n=alice,r=client",
        b"n,a=bob,n=alice,r=client",
        b"n,,n=alice,r=client,tokenauth=true",
        b"n,,r=client,n=alice",
        b"\xff,,n=alice,r=client",
        b"n,,n=alice,r=" + b"x" * 5000,
    ],
)
def test_a_malformed_first_message_is_refused(token: bytes) -> None:
    assert isinstance(scram().begin().step(token), Refused)


@pytest.mark.parametrize("header", [b"n,,", b"y,,", b"n,a=alice,"])
def test_the_channel_binding_is_the_header_that_the_client_began_with(header: bytes) -> None:
    server = scram()
    dialogue = server.begin()
    assert isinstance(dialogue.step(header + b"n=alice,r=client"), Challenge)
    other = base64.b64encode(b"p=tls-unique,,")

    outcome = dialogue.step(b"c=" + other + b",r=clientbroker,p=" + base64.b64encode(b"x" * 32))
    assert isinstance(outcome, Refused)
    assert "channel binding" in outcome.reason


def test_nothing_shows_a_secret() -> None:
    verifier = verifier_of("SCRAM-SHA-256", PASSWORD, b"salt", ITERATIONS_MIN)
    _, dialogue, final = exchanged(scram(), "alice", "guess-me")
    outcome = dialogue.step(final)

    assert isinstance(outcome, Refused)
    assert repr(verifier) == f"{verifier}" == "ScramVerifier(iterations=4096)"
    assert "guess-me" not in outcome.reason + repr(dialogue)
    assert isinstance(verifier, ScramVerifier)


def test_names_are_decoded_as_scram_writes_them() -> None:
    assert decoded_name("a=2Cb=3Dc") == "a,b=c"
    assert decoded_name("a=b") is None
