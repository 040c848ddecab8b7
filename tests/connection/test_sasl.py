"""The dialogues of PLAIN and SCRAM, with the example of RFC 7677 as judge."""

from __future__ import annotations

import pytest

from qanat.connection.sasl import NotAuthenticatedError, ScramDialogue, dialogue

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram(nonce: str = NONCE) -> ScramDialogue:
    speaking = dialogue("SCRAM-SHA-256", "user", "pencil", nonce)
    assert isinstance(speaking, ScramDialogue)
    return speaking


def test_plain_says_name_and_password_and_is_done() -> None:
    speaking = dialogue("PLAIN", "alice", "secret", NONCE)

    assert speaking.begin() == b"\0alice\0secret"
    assert speaking.step(b"") is None


def test_scram_speaks_the_example_of_its_rfc() -> None:
    speaking = scram()

    assert speaking.begin() == b"n,,n=user,r=" + NONCE.encode()
    assert speaking.step(SERVER_FIRST) == CLIENT_FINAL
    assert speaking.step(SERVER_FINAL) is None


def test_a_broker_that_does_not_know_the_password_is_not_believed() -> None:
    speaking = scram()
    speaking.step(SERVER_FIRST)

    with pytest.raises(NotAuthenticatedError, match="does not know the password"):
        speaking.step(b"v=" + b"A" * 43 + b"=")


def test_a_refusal_is_told_in_the_brokers_words() -> None:
    speaking = scram()
    speaking.step(SERVER_FIRST)

    with pytest.raises(NotAuthenticatedError, match="invalid-proof"):
        speaking.step(b"e=invalid-proof")


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (SERVER_FIRST.replace(b"r=rOpr", b"r=other"), "not one to ours"),
        (b"r=%s,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096" % NONCE.encode(), "not one to ours"),
        (SERVER_FIRST.replace(b"i=4096", b"i=1"), "asks for 1 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=99999999"), "asks for 99999999 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=many"), "asks for 0 iterations"),
        (SERVER_FIRST.replace(b"s=W22", b"s=???"), "not one to ours"),
        (b"\xff\xfe", "not one to ours"),
        (b"", "not one to ours"),
    ],
)
def test_a_first_answer_that_is_none_is_refused(first: bytes, reason: str) -> None:
    with pytest.raises(NotAuthenticatedError, match=reason):
        scram().step(first)


def test_names_with_commas_and_equal_signs_are_written_so_that_they_stay_one() -> None:
    speaking = dialogue("SCRAM-SHA-512", "a=b,c", "x", "n")

    assert speaking.begin() == b"n,,n=a=3Db=2Cc,r=n"
