"""What `qanat doctor` finds in the security of a set-up, and the remedy that it names."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from qanat.app import main
from qanat.app.cluster.pid_file import locked, write_pid_file
from qanat.app.doctor.doctor import examine_security
from qanat.app.doctor.stored_checks import check_stored
from qanat.app.doctor.stored_security import StoredSecurity
from qanat.app.rules.finding import Finding
from qanat.app.rules.security_checks import check_certificates
from qanat.app.secure.secure_setup import SecureFiles
from qanat.app.settings.listener_plan import plan_listeners
from qanat.app.settings.loading import load
from qanat.cluster.values import ApiKey
from qanat.security.acls import ANY, Acl, PatternType, Permission
from qanat.security.authorization import Operation, ResourceKind

BASIC = {
    "listeners": "SASL_SSL://0.0.0.0:9092",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "authorizer.class.name": "StandardAuthorizer",
    "super.users": "User:admin",
    "ssl.keystore.location": "/nowhere.pem",
    "http.port": "-1",
}


def graded(tmp_path: Path, settings: dict[str, str]) -> dict[str, Finding]:
    config = tmp_path / "broker.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in {"data.dir": tmp_path, **settings}.items()))
    return by_name(examine_security(str(tmp_path), config))


def by_name(findings: Iterable[Finding]) -> dict[str, Finding]:
    return {one.check: one for one in findings}


def test_a_set_up_by_secure_init_has_nothing_to_repair(tmp_path: Path) -> None:
    assert main.run(["secure", "init", "--data-dir", str(tmp_path / "data"), "--host", "queue-1.example"]) == 0
    findings = examine_security(str(tmp_path / "data"))

    assert [one for one in findings if one.status != "ok"] == []
    assert by_name(findings)["users"].seen == "1 with SCRAM"


def test_every_finding_that_is_not_ok_has_a_remedy_and_the_exit_code_counts_failures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "open.yaml"
    config.write_text(f"data.dir: {tmp_path}\nhost.name: 0.0.0.0\nallow.unauthenticated.clients: true\n")
    assert main.run(["doctor", "--data-dir", str(tmp_path), "--config", str(config), "-o", "json"]) == 1
    found = {one["check"]: one for one in json.loads(capsys.readouterr().out)}

    assert found["listeners"]["status"] == "fail"
    assert "listener.security.protocol=SASL_SSL" in found["listeners"]["advice"]
    assert [one for one in found.values() if one["status"] != "ok" and not one["advice"]] == []


def test_settings_of_the_command_line_win_over_those_of_the_file(tmp_path: Path) -> None:
    config = tmp_path / "broker.properties"
    config.write_text(f"data.dir={tmp_path}\n" + "".join(f"{name}={value}\n" for name, value in BASIC.items()))
    found = by_name(examine_security(str(tmp_path), config, ["super.users=User:ANONYMOUS"]))

    assert (by_name(examine_security(str(tmp_path), config))["super users"].status, found["super users"].status) == (
        "ok",
        "fail",
    )


def test_the_settings_of_a_running_cluster_are_graded(tmp_path: Path) -> None:
    with locked(str(tmp_path)):
        write_pid_file(
            str(tmp_path), {}, {"authorizer.class.name": "StandardAuthorizer", "super.users": "User:ANONYMOUS"}
        )
        assert by_name(examine_security(str(tmp_path)))["super users"].status == "fail"
        given = by_name(examine_security(str(tmp_path), None, ["super.users=User:admin"]))

    assert given["super users"].status == "ok"
    assert by_name(examine_security(str(tmp_path)))["authorization"].status == "ok", "it has no users"


def test_a_broker_of_this_machine_without_users_gets_a_warning_only(tmp_path: Path) -> None:
    found = graded(tmp_path, {})

    assert {one.check for one in found.values() if one.status != "ok"} == {"authentication"}
    assert "qanat secure init" in found["authentication"].advice


@pytest.mark.parametrize(
    ("settings", "check", "status", "remedy"),
    [
        ({"listeners": "SASL_PLAINTEXT://0.0.0.0:9092"}, "listeners", "warn", "SASL_SSL"),
        ({"authorizer.class.name": ""}, "authorization", "warn", "authorizer.class.name=StandardAuthorizer"),
        ({"allow.everyone.if.no.acl.found": "true"}, "authorization", "warn", "allow.everyone.if.no.acl.found=false"),
        ({"authorizer.dry.run": "true"}, "authorization", "warn", "qanat acl suggest"),
        ({"super.users": "User:admin;User:ANONYMOUS"}, "super users", "fail", "super.users="),
        ({"super.users": ""}, "super users", "warn", "super.users="),
        ({"super.users": ";".join(f"User:{n}" for n in range(6))}, "super users", "warn", "qanat acl add"),
        ({"login.failures.per.user": "0"}, "login limits", "warn", "login.failures.per.user=5"),
        ({}, "certificates", "fail", "qanat secure init --renew"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "settings", "fail", "qanat doctor"),
    ],
)
def test_a_weak_setting_is_found(
    tmp_path: Path, settings: dict[str, str], check: str, status: str, remedy: str
) -> None:
    before = [one.check for one in graded(tmp_path, BASIC).values() if one.status != "ok"]
    assert before == ["certificates"]

    found = graded(tmp_path, {**BASIC, **settings})[check]

    assert (found.status, remedy in found.advice) == (status, True), found


def test_files_that_others_can_read_are_found(tmp_path: Path) -> None:
    main.run(["secure", "init", "--data-dir", str(tmp_path / "data")])
    files = SecureFiles.of(str(tmp_path / "data"))
    (tmp_path / "data").chmod(0o755)
    (tmp_path / "data" / "metadata.db").chmod(0o644)
    shown = by_name(examine_security(str(tmp_path / "data")))["file modes"]
    assert (shown.status, shown.advice) == ("warn", f"chmod 700 {tmp_path / 'data'}")

    files.broker.chmod(0o644)
    shown = by_name(examine_security(str(tmp_path / "data")))["file modes"]
    assert (shown.status, shown.advice) == ("fail", f"chmod 600 {files.broker}")


def test_certificates_are_graded_by_the_days_that_are_left(tmp_path: Path) -> None:
    main.run(["secure", "init", "--data-dir", str(tmp_path / "data")])
    plan = plan_listeners(load([], SecureFiles.of(str(tmp_path / "data")).folder / "broker.yaml", {}).settings)
    day_s = 86_400

    def grade(days: int) -> str:
        return check_certificates(plan, tmp_path, time.time() + days * day_s).status

    assert [grade(days) for days in (0, 366, 368, 396, 398)] == ["ok", "ok", "warn", "warn", "fail"]


def test_rules_for_everyone_weak_users_and_endless_keys_are_found() -> None:
    def rule(principal: str, permission: Permission) -> Acl:
        return Acl(ResourceKind.TOPIC, "a b", PatternType.LITERAL, principal, ANY, Operation.READ, permission)

    rules = (rule("User:*", Permission.ALLOW), rule("User:*", Permission.DENY), rule("User:alice", Permission.ALLOW))
    key = ApiKey(user="alice", hash=b"")
    stored = StoredSecurity({("old one", "SCRAM-SHA-256"): 1000}, rules, {"0123456789abcdef": key})
    found = by_name(check_stored(stored))

    assert {one.status for one in found.values()} == {"warn"}
    command = "qanat acl remove --principal 'User:*' --operation read --topic 'a b' --yes"
    assert found["ACLs"].advice == command
    assert found["users"].advice == "qanat user password 'old one'"
    assert "qanat api-key remove qk_0123456789abcdef --yes" in found["API keys"].advice
