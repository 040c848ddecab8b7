"""What production refuses, each as one sentence with its remedy; staging warns of it, dev lets it be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.app.processes import qanat, running_broker
from tests.app.start.test_start import free_port

from qanat.app import main
from qanat.app.configs.check import examined
from qanat.app.doctor.doctor import examine_security
from qanat.app.rules import sqlite_checks
from qanat.app.rules.setup_rules import RULES, Setup, refusals, require_fit
from qanat.app.settings.faults import Faults
from qanat.app.settings.listener_plan import plan_listeners
from qanat.app.settings.loading import Loaded, assignment, load
from qanat.model.errors import InvalidSettingError

SAFE = {
    "environment": "production",
    "listeners": "SASL_SSL://0.0.0.0:9092",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "authorizer.class.name": "StandardAuthorizer",
    "super.users": "User:admin",
    "ssl.keystore.location": "broker.pem",
}
ETCD = {"metadata.store": "etcd", "metadata.etcd.endpoints": "https://etcd-1:2379"}


def loaded(folder: Path, **changes: str) -> Loaded:
    settings = {**SAFE, "data.dir": str(folder), **{name.replace("_", "."): value for name, value in changes.items()}}
    return load([assignment(f"{name}={value}") for name, value in settings.items()], None, {})


def refused(one: Loaded, hosts: int = 1) -> list[str]:
    return list(refusals(Setup(one.settings, plan_listeners(one.settings), hosts), one.values))


@pytest.fixture(autouse=True)
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A private file, where relative settings find it."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "broker.pem"
    path.write_text("")
    path.chmod(0o600)
    return path


def test_a_protected_broker_is_accepted(tmp_path: Path) -> None:
    assert refused(loaded(tmp_path)) == []
    assert refused(loaded(tmp_path, **{name.replace(".", "_"): value for name, value in ETCD.items()}), hosts=3) == []


@pytest.mark.parametrize(
    ("changes", "said", "remedy"),
    [
        (
            {"listeners": "PLAINTEXT://0.0.0.0:9092", "allow.unauthenticated.clients": "true"},
            "listeners: PLAINTEXT lets in every client",
            "-X listener.security.protocol=SASL_SSL",
        ),
        ({"listeners": "SASL_PLAINTEXT://0.0.0.0:9092"}, "is not encrypted beyond this machine", "SASL_SSL"),
        (
            {"metrics.port": "9999", "metrics.host.name": "0.0.0.0", "allow.unauthenticated.clients": "true"},
            "METRICS lets in every client",
            "-X metrics.security.protocol=SSL",
        ),
        (
            {
                "http.port": "8080",
                "http.host.name": "0.0.0.0",
                "http.security.protocol": "PLAINTEXT",
                "allow.unauthenticated.clients": "true",
            },
            "HTTP lets in every client",
            "-X http.security.protocol=SASL_SSL",
        ),
        (
            {
                "inter.broker.port": "19092",
                "security.inter.broker.protocol": "PLAINTEXT",
                "allow.unauthenticated.clients": "true",
            },
            "INTERNAL lets in every client",
            "-X security.inter.broker.protocol=SASL_SSL",
        ),
        ({"authorizer.class.name": ""}, "every user may do everything", "authorizer.class.name=StandardAuthorizer"),
        (
            {"listeners": "PLAINTEXT://127.0.0.1:9092", "authorizer.class.name": ""},
            "every user may do everything",
            "authorizer.class.name=StandardAuthorizer",
        ),
        ({"allow.everyone.if.no.acl.found": "true"}, "a resource that no rule names is open", "found=false"),
        ({"authorizer.dry.run": "true"}, "a dry run", "authorizer.dry.run=false"),
        ({"super.users": "User:ANONYMOUS"}, "User:ANONYMOUS may do everything", "super.users=User:admin"),
        ({"login.failures.per.user": "0"}, "guesses are not limited", "-X login.failures.per.user=5"),
        ({"login.failures.per.address": "0"}, "guesses are not limited", "-X login.failures.per.address=5"),
        (
            {**ETCD, "metadata.etcd.endpoints": "http://etcd-1:2379"},
            "etcd at etcd-1:2379 is not encrypted",
            "metadata.etcd.tls.ca.file",
        ),
        ({**ETCD, "default.replication.factor": "1"}, "fewer than 3 replicas", "-X default.replication.factor=3"),
        ({**ETCD, "min.insync.replicas": "1"}, "or 2 in sync", "-X min.insync.replicas=2"),
        (
            {**ETCD, "offsets.topic.replication.factor": "1"},
            "fewer than 3 replicas",
            "-X offsets.topic.replication.factor=3",
        ),
        (
            {**ETCD, "transaction.state.log.replication.factor": "2"},
            "fewer than 3 replicas",
            "-X transaction.state.log.replication.factor=3",
        ),
        (
            {**ETCD, "share.coordinator.state.topic.replication.factor": "1"},
            "fewer than 3 replicas",
            "-X share.coordinator.state.topic.replication.factor=3",
        ),
        ({"storage.engine": "memory"}, "records are in memory", "-X storage.engine=file"),
        ({"log.flush.interval.messages": "1000"}, "acknowledged before they are on disk", "interval.messages=1"),
        ({"unclean.leader.election.enable": "true"}, "lacks acknowledged records", "election.enable=false"),
        ({"auto.create.topics.enable": "true"}, "a misspelled name makes a topic", "qanat topic create"),
    ],
)
def test_production_refuses(tmp_path: Path, changes: dict[str, str], said: str, remedy: str) -> None:
    one = loaded(tmp_path, **{name.replace(".", "_"): value for name, value in changes.items()})
    (sentence,) = refused(one)

    assert said in sentence
    assert remedy in sentence.partition("; do: ")[2]
    assert "-X " in sentence.partition(";")[0], "it says where the setting stands"
    with pytest.raises(InvalidSettingError, match="production refuses to start"):
        require_fit(Setup(one.settings, plan_listeners(one.settings)), one.values, pytest.fail)


def test_production_refuses_keys_that_others_can_read(tmp_path: Path, certificate: Path) -> None:
    certificate.chmod(0o644)
    (sentence,) = refused(loaded(tmp_path))
    assert "file modes: others can read keys or passwords" in sentence
    assert sentence.endswith("do: chmod 600 broker.pem")


def test_production_refuses_sqlite_for_several_hosts_and_one_replica_on_three(tmp_path: Path) -> None:
    (shared,) = refused(loaded(tmp_path), hosts=2)
    assert "brokers of 2 hosts share an SQLite file; do: -X metadata.store=etcd" in shared
    several = refused(loaded(tmp_path, default_replication_factor="1"), hosts=3)
    assert ["shared store" in several[0], "replication" in several[1]] == [True, True]


def test_production_refuses_sqlite_on_a_network_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_checks, "file_system_of", lambda folder: "nfs4" if folder == tmp_path else "ext4")
    (sentence,) = refused(loaded(tmp_path, data_dir=str(tmp_path / "not" / "there")))
    assert "shared store: SQLite" in sentence
    assert sentence.endswith(" on nfs4; do: Locks do not hold over a network: use a local disk, or etcd.")
    one = loaded(tmp_path)
    with pytest.raises(InvalidSettingError, match="production refuses to start: shared store"):
        require_fit(Setup(one.settings, plan_listeners(one.settings)), one.values, pytest.fail)


def test_a_plain_listener_on_loopback_is_let_be(tmp_path: Path) -> None:
    assert refused(loaded(tmp_path, listeners="PLAINTEXT://127.0.0.1:9092")) == []


def test_staging_warns_and_dev_says_nothing(tmp_path: Path) -> None:
    warned: list[str] = []
    for environment in ("staging", "dev"):
        one = loaded(tmp_path, environment=environment, auto_create_topics_enable="true")
        require_fit(Setup(one.settings, plan_listeners(one.settings)), one.values, warned.append)
    assert len(warned) == 1
    assert warned[0].startswith("production would refuse this: topic creation: a misspelled name")


def test_a_start_says_the_first_refusal_and_how_many_there_are(tmp_path: Path) -> None:
    one = loaded(tmp_path, super_users="User:ANONYMOUS", storage_engine="memory")
    with pytest.raises(InvalidSettingError) as fault:
        require_fit(Setup(one.settings, plan_listeners(one.settings)), one.values, pytest.fail)
    assert str(fault.value).endswith("(and 1 more: qanat config check shows all)")


def test_staging_and_production_create_no_topics_unless_told(tmp_path: Path) -> None:
    for environment, creates in (("dev", True), ("staging", False), ("production", False)):
        assert loaded(tmp_path, environment=environment).settings.broker.auto_create_topics_enable is creates
    told = loaded(tmp_path, environment="staging", auto_create_topics_enable="true")
    assert told.settings.broker.auto_create_topics_enable


def test_a_real_start_is_refused_before_it_writes_anything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    assert main.run(["start", "--data-dir", str(data), "-X", "environment=production", "-X", "http.port=-1"]) == 1
    said = capsys.readouterr().err
    assert "production refuses to start: authorization: every user may do everything" in said
    assert not data.exists()


def on_host(number: int, folder: Path) -> list[str]:
    """Arguments of a broker that the others know by an address of its own, with a store for all."""
    words = ["--data-dir", str(folder / "data"), "--node-id", str(number), "--port", "0"]
    return [*words, "-X", f"host.name=127.0.0.{number}", "-X", f"inter.broker.port={free_port()}"]


def test_a_real_third_host_is_refused_once_it_has_joined_and_leaves(tmp_path: Path) -> None:
    production = {name: SAFE[name] for name in ("environment", "authorizer.class.name", "super.users")}
    told = {**production, "default.replication.factor": "1"}
    words = [word for name, value in told.items() for word in ("-X", f"{name}={value}")]
    with running_broker(tmp_path, *on_host(1, tmp_path)) as first, running_broker(tmp_path, *on_host(2, tmp_path)):
        done = qanat("start", *on_host(3, tmp_path), *words)
        status = json.loads(qanat("cluster", "status", "-b", first.address, "-o", "json").stdout)

    assert done.returncode == 1
    assert "production refuses to start: shared store: brokers of 3 hosts share an SQLite file" in done.stderr
    assert "(and 1 more: " in done.stderr, "one replica on three hosts"
    assert [one["id"] for one in status["brokers"]] == [1, 2]


def test_a_real_start_in_staging_warns(tmp_path: Path) -> None:
    with running_broker(tmp_path, "--port", "0", environment={"QANAT_ENVIRONMENT": "staging"}) as broker:
        assert broker.stop() == 0
        warnings = [str(one["event"]) for one in broker.events() if one.get("level") == "warning"]
    assert [one for one in warnings if one.startswith("production would refuse this: authorization")]


def test_what_secure_init_makes_is_fit_for_production(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert main.run(["secure", "init", "--data-dir", str(data), "--host", "queue-1.example"]) == 0
    config = data / "security" / "broker.yaml"
    rows = examined([assignment("environment=production")], config, Faults(collects=True))
    assert [row["kind"] for row in rows] == ["ok"]


def test_the_doctor_grades_by_the_same_rules(tmp_path: Path) -> None:
    found = examine_security(str(tmp_path), None, ["unclean.leader.election.enable=true"])
    one = loaded(tmp_path)
    names = [rule.check(Setup(one.settings, plan_listeners(one.settings))).check for rule in RULES]
    assert [finding.check for finding in found][: len(names)] == names
    assert {finding.check: finding.status for finding in found}["elections"] == "warn"
