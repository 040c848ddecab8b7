"""PLAIN, its credentials, and the SASL exchange of a connection."""

from __future__ import annotations

from pathlib import Path

import pytest

from qanat.adapters.credentials_file import plain_authenticator, read_credentials
from qanat.model.errors import InvalidSettingError
from qanat.security.authentication import Accepted, Principal, Refused
from qanat.security.plain import Plain
from qanat.security.sasl_exchange import SaslExchange
from qanat.security.settings import SecuritySettings

PASSWORDS = {"alice": "wonder:land", "bob": "ü"}


@pytest.mark.parametrize(
    ("token", "name"),
    [(b"\0alice\0wonder:land", "alice"), (b"alice\0alice\0wonder:land", "alice"), ("\0bob\0ü".encode(), "bob")],
)
def test_a_right_password_lets_in(token: bytes, name: str) -> None:
    assert Plain(PASSWORDS).begin().step(token) == Accepted(Principal(name))


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\0alice",
        b"\0alice\0wrong",
        b"\0alice\0",
        b"\0\0wonder:land",
        b"\0nobody\0\0",
        b"\0nobody\0x",
        b"\0alice\0wonder:land\0more",
        b"bob\0alice\0wonder:land",
        b"\xff\0alice\0wonder:land",
        b"\0alice\0" + b"x" * 20_000,
    ],
)
def test_anything_else_does_not(token: bytes) -> None:
    assert isinstance(Plain(PASSWORDS).begin().step(token), Refused)


def test_a_reason_never_tells_a_password() -> None:
    outcome = Plain(PASSWORDS).begin().step(b"\0alice\0secret-guess")

    assert isinstance(outcome, Refused)
    assert "secret-guess" not in outcome.reason
    assert "wonder" not in outcome.reason


def test_a_conversation_ends_with_a_principal() -> None:
    conversation = SaslExchange({"PLAIN": Plain(PASSWORDS)})
    assert conversation.mechanisms == ["PLAIN"]
    assert not conversation.choose("SCRAM-SHA-256", tokens_are_bare=False)
    assert not conversation.choose("", tokens_are_bare=True)
    assert conversation.choose("PLAIN", tokens_are_bare=True)
    conversation.step(b"\0alice\0wonder:land")

    assert conversation.is_authenticated
    assert conversation.principal == Principal("alice")
    assert str(conversation.principal) == "User:alice"


def test_credentials_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    path.write_text("# people\nalice:wonder:land\n\n  bob :ü\n")
    path.chmod(0o600)

    assert read_credentials(str(path)) == PASSWORDS
    settings = SecuritySettings(sasl_plain_credentials_file=str(path))
    assert plain_authenticator(settings).begin().step(b"\0alice\0wonder:land") == Accepted(Principal("alice"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("alice", "line 1 should read name:password"),
        ("a:b\n:c", "line 2 should read name:password"),
        ("a:b\na:c", "line 2: the name was given before"),
    ],
)
def test_a_bad_line_is_named_and_not_shown(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "credentials"
    path.write_text(text)
    path.chmod(0o600)

    with pytest.raises(InvalidSettingError, match=message):
        read_credentials(str(path))


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o620, 0o666, 0o601])
def test_a_file_that_others_have_access_to_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "credentials"
    path.write_text("alice:secret")
    path.chmod(mode)

    with pytest.raises(InvalidSettingError, match=rf"has mode {mode:o}, .*: chmod 600 ") as caught:
        read_credentials(str(path))
    assert "secret" not in str(caught.value)


def test_a_changed_file_is_read_again_and_a_bad_one_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    path.write_text("alice:old")
    path.chmod(0o600)
    plain = plain_authenticator(SecuritySettings(sasl_plain_credentials_file=str(path)))

    path.write_text("alice:new")
    plain.reload()
    path.write_text("alice")
    with pytest.raises(InvalidSettingError):
        plain.reload()

    assert plain.begin().step(b"\0alice\0new") == Accepted(Principal("alice"))
    assert isinstance(plain.begin().step(b"\0alice\0old"), Refused)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettingError, match="No such file"):
        read_credentials(str(tmp_path / "none"))
    with pytest.raises(InvalidSettingError, match=r"needs sasl\.plain\.credentials\.file"):
        plain_authenticator(SecuritySettings())


def test_lists_are_read_from_settings() -> None:
    settings = SecuritySettings(sasl_enabled_mechanisms=" PLAIN, X ,", super_users="User:a; User:b;")

    assert settings.mechanisms == ("PLAIN", "X")
    assert settings.super_principals == ("User:a", "User:b")
