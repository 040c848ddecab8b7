"""DescribeUserScramCredentials and AlterUserScramCredentials."""

from __future__ import annotations

from qanat.wire.kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from qanat.wire.kafka.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.play import Play
from verify.conformance.script import secured_conversation

ALTER, DESCRIBE = ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
SHA_256, SHA_512 = 1, 2
SIZES = {SHA_256: 32, SHA_512: 64}


def credential(name: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name, mechanism, iterations, b"s" * 16, b"p" * SIZES.get(mechanism, 32))


def _altered(play: Play, what: str, *changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> None:
    gone = [one for one in changes if isinstance(one, ScramCredentialDeletion)]
    made = [one for one in changes if isinstance(one, ScramCredentialUpsertion)]
    play.exchange(ALTER, 0, AlterUserScramCredentialsRequest(gone, made), what)


def _described(play: Play, what: str, *names: str) -> None:
    play.exchange(DESCRIBE, 0, DescribeUserScramCredentialsRequest([UserName(name) for name in names]), what)


@secured_conversation
def users_of_scram(play: Play) -> None:
    alice, bob, carol = (f"{play.name}-{name}" for name in ("alice", "bob", "carol"))
    _altered(play, "two users", credential(alice), credential(bob, SHA_512, 8192))
    _altered(play, "a second mechanism", credential(alice, SHA_512))
    _described(play, "three, one of them unknown", alice, bob, carol)
    _described(play, "one twice", alice, alice, bob)
    play.exchange(DESCRIBE, 0, DescribeUserScramCredentialsRequest(None), "all")
    _altered(play, "another password", credential(alice, iterations=5000))
    _altered(play, "too few iterations", credential(carol, iterations=4095))
    _altered(play, "too many iterations", credential(carol, iterations=16385))
    _altered(play, "no such mechanism", credential(carol, 3), credential(bob, 0))
    _altered(play, "no name", credential(""))
    _altered(play, "one user twice", credential(bob), credential(bob, SHA_512), credential(carol))
    _altered(play, "set and deleted at once", ScramCredentialDeletion(bob, SHA_512), credential(bob))
    _altered(play, "nothing")
    _described(play, "what is there", alice, bob, carol)
    _altered(play, "deleted", ScramCredentialDeletion(alice, SHA_256), ScramCredentialDeletion(bob, SHA_256))
    _altered(play, "deleted again", ScramCredentialDeletion(alice, SHA_256), ScramCredentialDeletion("", SHA_256))
    _altered(play, "deleted, of no mechanism", ScramCredentialDeletion(alice, 7))
    _described(play, "what is left", alice, bob, carol)
