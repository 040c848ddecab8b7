"""Secrets are compared in constant time (CVE-2021-38153), also for names that do not exist."""

from __future__ import annotations

import hmac

import pytest
from tests.security.test_scram import PASSWORD, exchanged, scram

from qanat.security import api_keys, plain
from qanat.security.plain import Plain

Compared = list[tuple[bytes, bytes]]


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Compared:
    """What was compared by the constant-time comparison."""
    found: Compared = []
    compare = hmac.compare_digest

    def noted(one: bytes, other: bytes) -> bool:
        found.append((bytes(one), bytes(other)))
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", noted)
    monkeypatch.setattr(plain, "compare_digest", noted)
    return found


@pytest.mark.parametrize(("name", "password"), [("alice", PASSWORD), ("alice", "wrong"), ("nobody", PASSWORD)])
def test_scram_compares_nonce_and_proof(compared: Compared, name: str, password: str) -> None:
    server = scram()
    _, dialogue, final = exchanged(server, name, password)
    compared.clear()
    dialogue.step(final)
    stored = server.known_or_fake(name)[0].stored_key

    assert [one for one, _ in compared][:1] == [b"clientbroker"]
    assert [other for _, other in compared][1:] == [stored]


@pytest.mark.parametrize(("name", "password"), [("alice", PASSWORD), ("alice", "wrong"), ("nobody", PASSWORD)])
def test_a_password_over_http_is_compared_by_its_verifier(compared: Compared, name: str, password: str) -> None:
    server = scram()
    server.is_password(name, password)

    assert [other for _, other in compared] == [server.known_or_fake(name)[0].stored_key]


@pytest.mark.parametrize("name", ["alice", "nobody"])
def test_plain_compares_also_where_there_is_no_such_user(compared: Compared, name: str) -> None:
    Plain({"alice": "secret"}).begin().step(f"\0{name}\0guess".encode())

    assert [one for one, _ in compared] == [b"guess"]


def test_api_keys_are_compared_by_their_hashes(compared: Compared) -> None:
    api_keys.is_key("guess", bytes(32))

    assert compared == [(api_keys.hash_of("guess"), bytes(32))]
