"""`-X`, `--command-config`, a profile's settings and `QANAT_CLIENT_…`: settings in the names of Kafka's clients."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.app.conftest import Run
from tests.connection.certificates import certificates, tls_in_front

from qanat.app import main
from qanat.app.client.client_settings import ClientSettings, settings_of, settings_of_environment, settings_of_file
from qanat.connection.security import security_of
from qanat.model.errors import InvalidSettingError
from qanat.testing import EmbeddedBroker

SECRET = "hunter2"
ALICE = ("-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanisms=PLAIN", "-X", "sasl.username=alice")


@pytest.fixture(scope="module")
def secured_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker that wants to know who asks."""
    credentials = tmp_path_factory.mktemp("secured_broker") / "credentials"
    credentials.write_text(f"alice:{SECRET}\n")
    credentials.chmod(0o600)
    settings = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.plain.credentials.file": str(credentials)}
    with EmbeddedBroker(settings=settings) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def run_secured(
    secured_broker: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Run:
    """Run a command in this process on the broker that asks."""
    monkeypatch.setenv("QANAT_BOOTSTRAP_SERVERS", secured_broker)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def run_command(*arguments: str) -> CompletedProcess[str]:
        capfd.readouterr()
        code = main.run(arguments)
        printed = capfd.readouterr()
        return CompletedProcess(arguments, code, printed.out, printed.err)

    return run_command


def test_a_password_comes_by_flag_by_variable_by_file_and_by_profile(
    run_secured: Run, secured_broker: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    login = "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required"
    jaas = f'{login} \\\n  username="alice" password="{SECRET}";\n'
    file.write_text(f"# ours\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nretries=3\n{jaas}")
    by_flag = run_secured("topic", "list", *ALICE, "-X", f"sasl.password={SECRET}")
    by_file = run_secured("topic", "list", "--command-config", str(file))
    by_profile = run_secured("profile", "set", "safe", "-b", secured_broker, *ALICE, "-X", f"sasl.password={SECRET}")
    named = run_secured("topic", "list", "--profile", "safe")
    monkeypatch.setenv("QANAT_CLIENT_SASL_PASSWORD", SECRET)
    by_variable = run_secured("topic", "list", *ALICE)

    for done in (by_flag, by_file, by_profile, named, by_variable):
        assert (done.returncode, done.stderr) == (0, ""), done.args


def test_a_wrong_password_is_one_sentence_without_the_password(run_secured: Run) -> None:
    refused = run_secured("topic", "list", *ALICE, "-X", "sasl.password=guess")

    assert refused.returncode == 1
    assert "does not let alice in" in refused.stderr
    assert "guess" not in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_password_that_is_always_there_does_no_harm_to_a_cluster_without(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QANAT_CLIENT_SASL_PASSWORD", SECRET)

    assert run("topic", "list").returncode == 0
    assert run("topic", "list", "-X", "sasl.username=alice").returncode == 1


def test_a_profile_may_leave_its_password_to_the_environment(run_secured: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QANAT_BOOTSTRAP_SERVERS")
    kept = run_secured("profile", "set", "safe", "-b", "127.0.0.1:1", *ALICE)
    missing = run_secured("topic", "list")
    wrong = run_secured("profile", "set", "safe", "-b", "127.0.0.1:1", "-X", "security.protocol=SECRET")

    assert (kept.returncode, kept.stderr) == (0, "")
    assert missing.stderr.startswith("qanat: sasl.password is missing")
    assert wrong.stderr.startswith("qanat: security.protocol is 'SECRET', but must be one of PLAINTEXT")


def test_a_client_without_credentials_learns_what_the_broker_requires(run_secured: Run) -> None:
    refused = run_secured("topic", "list")

    assert refused.returncode == 1
    assert "security.protocol" in refused.stderr


def test_a_profile_shows_no_secrets(run_secured: Run, tmp_path: Path) -> None:
    run_secured("profile", "set", "safe", "-b", "127.0.0.1:1", *ALICE, "-X", f"sasl.password={SECRET}")
    listed = run_secured("profile", "list", "-o", "json")
    (row,) = json.loads(listed.stdout)

    assert SECRET not in listed.stdout
    assert row["settings"].endswith("sasl.username=alice sasl.password=(secret)")
    assert stat.S_IMODE((tmp_path / "qanat" / "config.yaml").stat().st_mode) == 0o600


def test_the_profile_in_use_gives_its_password_to_no_other_address(run_secured: Run, secured_broker: str) -> None:
    run_secured("profile", "set", "safe", "-b", secured_broker, *ALICE, "-X", f"sasl.password={SECRET}")
    elsewhere = run_secured("topic", "list", "-b", secured_broker)

    assert elsewhere.returncode == 1
    assert "security.protocol" in elsewhere.stderr


async def test_tls_is_spoken_with_the_certificates_that_are_given(
    run_secured: Run, secured_broker: str, tmp_path: Path
) -> None:
    made = certificates(tmp_path)
    async with tls_in_front(int(secured_broker.rpartition(":")[2]), made) as outside:
        # The broker names its own port in metadata: the proxy is only good for what any broker answers.
        trust = ("-X", f"ssl.ca.location={made.authority}")
        address = ("-b", f"127.0.0.1:{outside}", "--timeout", "20", "-X", "security.protocol=SASL_SSL", *ALICE[2:])
        trusted = await asyncio.to_thread(
            run_secured, "topic", "list", *address, *trust, "-X", f"sasl.password={SECRET}"
        )
        doubted = await asyncio.to_thread(run_secured, "topic", "list", *address, "-X", f"sasl.password={SECRET}")

    assert (trusted.returncode, trusted.stderr) == (0, "")
    assert doubted.returncode == 1
    assert "cannot be trusted" in doubted.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-X", "isolation.levl=x"], "-X: there is no client setting isolation.levl; did you mean isolation.level?"),
        (["-X", "acks"], "'acks' should read name=value"),
        (["-X", "zzz=1"], "-X: there is no client setting zzz; qanat -X list shows what there is"),
        (["-X", "acks=1", "-X", "request.required.acks=0"], "-X: request.required.acks and acks are the same setting"),
        (["-X", "request.timeout.ms=soon"], "request.timeout.ms is 'soon', but must be a whole number, 1 at least"),
        (["-X", "sasl.username=me"], "sasl.username has no effect without security.protocol"),
        (["-X", "bootstrap.servers=x:y", "-X", "client.id=me"], "bootstrap.servers x:y: 'x:y' is no address"),
        (["--command-config", "/nonexistent/file"], "--command-config /nonexistent/file: No such file or directory"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(run_secured: Run, arguments: list[str], expected: str) -> None:
    refused = run_secured("topic", "list", *arguments)

    assert refused.returncode == 1
    assert refused.stderr.startswith(f"qanat: {expected}")
    assert refused.stderr.count("\n") == 1


def test_a_misspelled_variable_is_refused_with_the_nearest(run_secured: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QANAT_CLIENT_SASL_PASWORD", SECRET)
    refused = run_secured("topic", "list")

    assert refused.stderr.endswith("did you mean QANAT_CLIENT_SASL_PASSWORD?\n")
    assert SECRET not in refused.stderr


@pytest.mark.parametrize("arguments", [("-X", "list"), ("topic", "list", "-X", "list"), ("profile", "settings")])
def test_all_settings_are_listed(run_secured: Run, arguments: tuple[str, ...]) -> None:
    listed = run_secured(*arguments)

    assert listed.returncode == 0
    assert "sasl.username" in listed.stdout
    assert "isolation.level" in listed.stdout


@pytest.mark.parametrize("flag", ["-b", "--bootstrap-server", "-X", "--timeout"])
def test_the_cluster_may_be_named_before_the_command(run: Run, broker_address: str, flag: str) -> None:
    value = {"-X": f"bootstrap.servers={broker_address}", "--timeout": "9"}.get(flag, broker_address)
    before = run(flag, value, "topic", "list")
    joined = run(f"--bootstrap={broker_address}", "topic", "create", "x-joined", "--if-not-exists", "--")

    assert (before.returncode, before.stderr) == (0, "")
    assert (joined.returncode, joined.stderr) == (0, "")


def test_produce_and_consume_go_by_settings(run: Run) -> None:
    run("topic", "create", "x-flow", "-p", "1")
    run("produce", "x-flow", "-X", "acks=1", "-X", "compression.codec=zstd", given="a\nb\n")
    earliest = run("consume", "x-flow", "-e", "-X", "isolation.level=read_committed")
    latest = run("consume", "x-flow", "-e", "-X", "auto.offset.reset=latest")
    flag = run("consume", "x-flow", "-e", "-X", "auto.offset.reset=latest", "--from", "1")
    group = run("consume", "x-flow", "-e", "-X", "group.id=x-group")
    again = run("consume", "x-flow", "-e", "-X", "group.id=x-group")
    wrong = run("produce", "x-flow", "-X", "compression.codec=zip", given="c\n")

    assert [one.stdout for one in (earliest, latest, flag, group, again)] == ["a\nb\n", "", "b\n", "a\nb\n", ""]
    assert wrong.stderr == "qanat: compression.type is 'zip', but must be one of none, gzip, snappy, lz4, zstd\n"


def test_flags_come_before_profiles_before_variables_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id: file\nacks 1\n! no\n\nunknown=5\n")
    flags = settings_of({"client.id": "flag"}, "-X")
    around = settings_of_environment({"QANAT_CLIENT_CLIENT_ID": "variable", "QANAT_PROFILE": "x"})

    assert flags.over(settings_of_file(str(file))).values == {"client.id": "flag", "acks": "1"}
    assert flags.over(around).client_id == "flag"
    assert around.over(ClientSettings({"client.id": "profile", "group.id": "g"})).values == {
        "client.id": "variable",
        "group.id": "g",
    }


def test_secrets_are_neither_shown_nor_printed() -> None:
    names = ("sasl.password", "ssl.key.password", "sasl.jaas.config", "ssl.key.pem", "ssl.keystore.key")
    settings = settings_of(dict.fromkeys(names, SECRET), "-X")

    assert SECRET not in repr(settings)
    assert set(settings.shown().values()) == {"(secret)"}
    with pytest.raises(InvalidSettingError):
        security_of(settings.values)
