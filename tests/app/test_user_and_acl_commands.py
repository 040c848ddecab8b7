"""`qanat user` and `qanat acl`: the first user without a broker, then everything as that administrator."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.app.conftest import Run
from tests.app.processes import running_broker

from qanat.app import main
from qanat.app.acls.acl_options import command_of
from qanat.app.acls.why import Question, decided
from qanat.app.settings.environment import USER_PASSWORD
from qanat.security.acls import ANY, Acl, PatternType, Permission
from qanat.security.authorization import Operation, Resource, ResourceKind

PASSWORD = "correct horse"
Command = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address and data directory of a broker whose only user was added before its first start."""
    folder = tmp_path_factory.mktemp("secured")
    os.environ[USER_PASSWORD] = PASSWORD
    try:
        assert main.run(["user", "add", "admin", "--data-dir", str(folder / "data")]) == 0
    finally:
        del os.environ[USER_PASSWORD]
    settings = (
        "listener.security.protocol=SASL_PLAINTEXT",
        "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512",
        "authorizer.class.name=StandardAuthorizer",
        "super.users=User:admin",
    )
    flags = [word for setting in settings for word in ("-X", setting)]
    with running_broker(folder, "--port", "0", "-X", "http.port=-1", *flags) as broker:
        yield broker.address, str(folder / "data")
        assert broker.stop() == 0


@pytest.fixture
def address(secured: tuple[str, str]) -> str:
    return secured[0]


@pytest.fixture
def qanat(address: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("QANAT_BOOTSTRAP_SERVERS", address)

    def run_command(*arguments: str, user: str = "admin", password: str = PASSWORD) -> CompletedProcess[str]:
        monkeypatch.setenv("QANAT_CLIENT_SECURITY_PROTOCOL", "SASL_PLAINTEXT")
        monkeypatch.setenv("QANAT_CLIENT_SASL_MECHANISM", "SCRAM-SHA-512")
        monkeypatch.setenv("QANAT_CLIENT_SASL_USERNAME", user)
        monkeypatch.setenv("QANAT_CLIENT_SASL_PASSWORD", password)
        capfd.readouterr()
        code = main.run(list(arguments))
        printed = capfd.readouterr()
        return CompletedProcess(arguments, code, printed.out, printed.err)

    return run_command


@pytest.fixture
def password_file(tmp_path: Path) -> str:
    file = tmp_path / "password"
    file.write_text("hunter2\nnot this line\n")
    file.chmod(0o600)
    return str(file)


def test_the_first_user_logs_in(qanat: Command) -> None:
    listed = json.loads(qanat("user", "list", "-o", "json").stdout)

    assert [(row["user"], row["mechanism"], row["iterations"]) for row in listed if row["user"] == "admin"] == [
        ("admin", "SCRAM-SHA-256", 4096),
        ("admin", "SCRAM-SHA-512", 4096),
    ]
    refused = qanat("user", "list", password="wrong")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "does not let admin in" in refused.stderr
    assert "wrong" not in refused.stderr


def test_a_user_is_added_gets_another_password_and_is_removed(
    qanat: Command, password_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = qanat("user", "add", "bob", "--password-file", password_file)
    assert (added.returncode, added.stdout) == (0, "added bob with SCRAM-SHA-256\nadded bob with SCRAM-SHA-512\n")
    assert qanat("topic", "list", user="bob", password="hunter2").returncode == 0
    again = qanat("user", "add", "bob", "--password-file", password_file)
    assert (again.returncode, again.stderr[:45]) == (1, "qanat: user bob is there, with SCRAM-SHA-256 ")
    monkeypatch.setenv(USER_PASSWORD, "hunter3")
    assert qanat("user", "password", "bob").returncode == 0
    assert qanat("topic", "list", user="bob", password="hunter2").returncode == 1
    assert qanat("topic", "list", user="bob", password="hunter3").returncode == 0
    assert "there is no user eve" in qanat("user", "password", "eve").stderr
    asked = qanat("user", "remove", "bob")
    assert (asked.returncode, "would remove bob with SCRAM-SHA-256" in asked.stdout) == (1, True)
    assert qanat("user", "remove", "bob", "--yes").returncode == 0
    assert qanat("topic", "list", user="bob", password="hunter3").returncode == 1
    assert "there is no user bob" in qanat("user", "remove", "bob", "--yes").stderr


def test_a_lost_password_is_set_in_the_store_of_a_running_broker(
    qanat: Command, secured: tuple[str, str], password_file: str
) -> None:
    qanat("user", "add", "frank", "--password-file", password_file)
    Path(password_file).write_text("remembered\n")
    data_dir = ("--data-dir", secured[1])
    assert qanat("user", "password", "frank", "--password-file", password_file, *data_dir).returncode == 0
    assert wait_for(lambda: qanat("topic", "list", user="frank", password="remembered").returncode == 0)
    listed = qanat("user", "list", *data_dir, "-o", "json").stdout
    assert {"user": "frank", "mechanism": "SCRAM-SHA-256", "iterations": 4096} in json.loads(listed)
    assert qanat("user", "remove", "frank", "--mechanism", "SCRAM-SHA-512", "--yes", *data_dir).returncode == 0
    assert wait_for(lambda: qanat("topic", "list", user="frank", password="remembered").returncode == 1)


def wait_for(is_so: Callable[[], bool]) -> bool:
    """Whether it becomes so soon: running brokers see the store by their watch."""
    for _ in range(600):
        if is_so():
            return True
        time.sleep(0.1)
    return False


def test_a_password_comes_from_a_file_that_others_cannot_read(qanat: Command, password_file: str) -> None:
    Path(password_file).chmod(0o644)
    readable = qanat("user", "add", "carol", "--password-file", password_file)
    Path(password_file).chmod(0o600)
    Path(password_file).write_text("\n")
    empty = qanat("user", "add", "carol", "--password-file", password_file)
    missing = qanat("user", "add", "carol", "--password-file", password_file + "-not")
    few = qanat("user", "add", "carol", "--iterations", "100", "--password-file", password_file)

    assert f"others can read {password_file}: chmod 600" in readable.stderr
    assert "is empty" in empty.stderr
    assert "No such file" in missing.stderr
    assert "write 4096 to 16384" in few.stderr
    assert {one.returncode for one in (readable, empty, missing, few)} == {1}


def test_rules_are_added_listed_explained_and_removed(qanat: Command, password_file: str) -> None:
    qanat("user", "add", "dave", "--password-file", password_file)
    qanat("topic", "create", "orders")
    question = ("acl", "why", "--principal", "dave", "--operation", "write", "--topic", "orders")

    denied = qanat(*question)
    assert denied.returncode == 1
    assert denied.stdout.splitlines() == [
        "DENIED: User:dave WRITE topic 'orders' from an address that no rule names",
        "  because no rule allows it",
        "  to allow it: qanat acl add --principal User:dave --operation write --topic orders",
    ]
    command = denied.stdout.splitlines()[-1].partition("qanat ")[2].split()
    added = qanat(*command)
    assert (added.returncode, added.stdout) == (0, "ALLOW User:dave WRITE on topic 'orders' from any host\n")
    allowed = qanat(*question)
    assert (allowed.returncode, allowed.stdout.splitlines()[0][:8]) == (0, "ALLOWED:")
    assert "the rule: ALLOW User:dave WRITE on topic 'orders' from any host" in allowed.stdout

    qanat("acl", "add", "--principal", "*", "--operation", "all", "--topic", "ord", "--prefixed", "--deny")
    denied = qanat(*question, "-o", "json")
    (row,) = json.loads(denied.stdout)
    assert (row["verdict"], row["reason"]) == ("denied", "a rule denies it")
    assert row["command"] == "qanat acl remove --principal 'User:*' --operation all --topic ord --prefixed --deny"
    listed = json.loads(qanat("acl", "list", "--topic", "orders", "--matching", "-o", "json").stdout)
    assert {(one["principal"], one["permission"], one["name"]) for one in listed} == {
        ("User:dave", "allow", "orders"),
        ("User:*", "deny", "ord"),
    }
    asked = qanat("acl", "remove", "--topic", "ord", "--prefixed")
    assert (asked.returncode, asked.stdout[:12]) == (1, "would remove")
    assert qanat("acl", "remove", "--topic", "ord", "--prefixed", "--yes").returncode == 0
    assert qanat(*question).returncode == 0
    assert qanat("acl", "remove", "--principal", "dave", "--yes").returncode == 0
    assert qanat("acl", "list", "-o", "json").stdout.strip() == "[]"


def test_a_super_user_needs_no_rule(qanat: Command) -> None:
    answer = qanat("acl", "why", "--principal", "admin", "--operation", "alter", "--cluster")

    assert answer.returncode == 0
    assert "because User:admin is in super.users" in answer.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("add", "--principal", "a", "--operation", "raed", "--topic", "t"), "--operation raed is none; did you mean"),
        (("add", "--principal", "a", "--operation", "read"), "name a resource: --topic, --group"),
        (("add", "--principal", "User:", "--operation", "read", "--topic", "t"), "should read User:name"),
        (("add", "--principal", "a", "--operation", "read", "--topic", "t", "--host", "here"), "is no address"),
        (("remove", "--yes"), "name the rules"),
        (("remove", "--principal", "not-there", "--yes"), "there is no such rule"),
        (("why", "--principal", "a", "--operation", "all", "--topic", "t"), "ask about one operation"),
        (("why", "--principal", "a", "--operation", "read", "--topic", "t", "--topic", "u"), "one resource"),
    ],
)
def test_a_mistake_gets_one_sentence(qanat: Command, arguments: tuple[str, ...], message: str) -> None:
    refused = qanat("acl", *arguments)

    assert (refused.returncode, refused.stdout) == (1, "")
    assert message in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_a_broker_without_an_authorizer_says_what_to_do(run: Run) -> None:
    refused = run("acl", "list")

    assert refused.returncode == 1
    assert "authorizer.class.name=StandardAuthorizer" in refused.stderr


def test_a_rule_is_a_command_that_makes_it() -> None:
    acl = Acl(ResourceKind.GROUP, "a b", PatternType.PREFIXED, "User:x", "10.0.0.1", Operation.READ, Permission.DENY)
    expected = "qanat acl add --principal User:x --operation read --group 'a b' --prefixed --host 10.0.0.1 --deny"
    assert command_of("add", acl) == expected


def test_a_resource_that_no_rule_names_may_be_open() -> None:
    topic = Resource(ResourceKind.TOPIC, "t")
    question = Question("User:a", None, Operation.READ, topic)
    other = Acl(ResourceKind.TOPIC, "t", PatternType.LITERAL, "User:b", ANY, Operation.READ, Permission.ALLOW)

    assert decided([], question, is_open=True).is_allowed
    assert not decided([other], question, is_open=True).is_allowed
    assert not decided([], question, is_open=False).is_allowed
