"""API keys over HTTP, made and removed by the commands while the broker runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.servers.http.serving import ServedNode, node_settings, served

from qanat.app import main
from qanat.cluster import keys, values
from qanat.cluster.store import Put
from qanat.security.settings import SecuritySettings

Command = Callable[..., str]
PATH = "/api/v1/topics"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    folder: Path = tmp_path_factory.mktemp("keys")
    security = SecuritySettings(
        listener_security_protocol="SASL_PLAINTEXT",
        sasl_enabled_mechanisms="SCRAM-SHA-256",
        authorizer_class_name="StandardAuthorizer",
        super_users="User:root",
        login_failures_per_user=0,
        login_failures_per_address=0,
    )
    with served(replace(node_settings(str(folder / "data")), security=security)) as running:
        yield running


@pytest.fixture
def command(node: ServedNode, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command on the broker's store, and returns its output."""

    def run(*words: str, code: int = 0) -> str:
        assert main.run(["api-key", *words, "--data-dir", node.settings.data_dir]) == code
        return capsys.readouterr().out

    return run


def statuses_until(node: ServedNode, key: str, status: int) -> None:
    """The broker's watch sees a change a moment later."""
    deadline = time.monotonic() + 30
    while (found := node.get(PATH, X_API_Key=key).status) != status:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def test_a_key_stands_for_its_user_until_it_is_removed(node: ServedNode, command: Command) -> None:
    key = command("add", "root", "--note", "for tests").strip()
    statuses_until(node, key, 200)

    assert node.get(PATH, Authorization=f"Bearer {key}").status == 200
    assert node.get(PATH, Authorization=f"ApiKey {key}").status == 200
    assert node.post(PATH, {"name": "t", "partitions": 1}, X_API_Key=key).status == 201
    assert key[:19] in command("remove", key[:19], code=1), "only listed without --yes"
    assert node.get(PATH, X_API_Key=key).status == 200
    command("remove", key[:19], "--yes")
    statuses_until(node, key, 401)


def test_a_key_has_the_rights_of_its_user(node: ServedNode, command: Command) -> None:
    key = command("add", "alice").strip()
    statuses_until(node, key, 200)

    assert node.post(PATH, {"name": "u", "partitions": 1}, X_API_Key=key).status == 403


def test_lists_show_prefixes_and_no_secret(node: ServedNode, command: Command) -> None:
    key = command("add", "carol", "--expires", "2h", "--note", "build").strip()
    listed = command("list", "--user", "carol", "-o", "json")
    (row,) = json.loads(listed)

    assert (row["prefix"], row["user"], row["state"], row["note"]) == (key[:19], "carol", "valid", "build")
    assert key[20:] not in listed
    stored = b"".join(path.read_bytes() for path in Path(node.settings.data_dir).glob("metadata.db*"))
    assert key[:19].removeprefix("qk_").encode() in stored
    assert key[20:].encode() not in stored


@pytest.mark.parametrize("scheme", ["X-API-Key", "Bearer", "ApiKey"])
def test_wrong_and_unknown_keys_are_refused(node: ServedNode, command: Command, scheme: str) -> None:
    key = command("add", "root").strip()
    statuses_until(node, key, 200)
    for wrong in (key[:-2] + ("AA" if key[-2:] != "AA" else "BB"), "qk_" + "0" * 16 + key[19:], "qk_", key[:19]):
        headers = {"X-API-Key": wrong} if scheme == "X-API-Key" else {"Authorization": f"{scheme} {wrong}"}
        answer = node.call("GET", PATH, headers=headers)
        assert answer.status == 401
        assert wrong not in answer.body.decode()


def test_an_expired_key_is_refused(node: ServedNode, command: Command) -> None:
    key = command("add", "root", "--expires", "1m").strip()
    statuses_until(node, key, 200)
    metadata = node.node.broker.metadata
    identity = key[3:19]
    past = replace(metadata.image.api_keys[identity], expires_ms=1)
    assert node.run(metadata.commit([], [Put(keys.api_key(identity), values.encode(past))]))

    statuses_until(node, key, 401)
    assert "expired" in command("list")


@pytest.mark.parametrize("words", [("add", "x", "--expires", "soon"), ("add", ""), ("remove", "qk_0", "--yes")])
def test_wrong_arguments_are_refused(command: Command, words: tuple[str, ...]) -> None:
    command(*words, code=1)


def test_the_commands_need_a_store(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["api-key", "list"]) == 1
    assert "--data-dir" in capsys.readouterr().err
