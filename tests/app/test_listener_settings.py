"""Several listeners: their names, protocols and own settings; what does not fit is named with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from qanat.app.settings.listener_plan import ListenerPlan, plan_listeners
from qanat.app.settings.loading import assignment, flag, load
from qanat.model.errors import InvalidSettingError

TWO = "listeners=PLAINTEXT://127.0.0.1:9092,SASL_PLAINTEXT://127.0.0.1:9093"


def planned(*assignments: str, file: Path | None = None, **environment: str) -> ListenerPlan:
    return plan_listeners(load([assignment(text) for text in assignments], file, environment).settings)


def refusal(*assignments: str, file: Path | None = None, **environment: str) -> str:
    with pytest.raises(InvalidSettingError) as caught:
        planned(*assignments, file=file, **environment)
    return str(caught.value)


def test_one_listener_is_what_host_port_and_protocol_say() -> None:
    (one,) = planned("port=1", "listener.security.protocol=SASL_PLAINTEXT").clients

    assert (one.name, one.host, one.port, one.protocol) == ("SASL_PLAINTEXT", "127.0.0.1", 1, "SASL_PLAINTEXT")


def test_several_listeners_keep_their_order_names_and_protocols() -> None:
    plan = planned(
        "listeners=LOCAL://127.0.0.1:1,CONTROLLER://:2,SASL_PLAINTEXT://0.0.0.0:3",
        "listener.security.protocol.map=LOCAL:PLAINTEXT",
        "advertised.listeners=SASL_PLAINTEXT://queue.example.org:30",
    )

    assert [(one.name, one.protocol, one.port) for one in plan.clients] == [
        ("LOCAL", "PLAINTEXT", 1),
        ("SASL_PLAINTEXT", "SASL_PLAINTEXT", 3),
    ]
    assert [(one.advertised_host, one.advertised_port) for one in plan.clients] == [
        (None, None),
        ("queue.example.org", 30),
    ]


def test_a_later_source_replaces_all_listeners_of_an_earlier_one(tmp_path: Path) -> None:
    file = tmp_path / "qanat.yml"
    file.write_text(f"{TWO.replace('=', ': ')}\n")

    assert [one.port for one in planned(file=file).clients] == [9092, 9093]
    assert [
        one.port for one in planned("listeners=SSL://127.0.0.1:1", "ssl.keystore.location=x", file=file).clients
    ] == [1]
    file.write_text("port: 5\nhost.name: 127.0.0.2\n")
    assert next((one.host, one.port) for one in planned(TWO, file=file).clients) == ("127.0.0.1", 9092)


def test_a_port_for_several_listeners_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match=r"port = '9' \(--port\): listeners has several \(-X .*\): change it"):
        load([flag("port", 9, "--port"), assignment(TWO)], None, {})


def test_a_listener_has_its_own_settings_over_the_common_ones() -> None:
    plan = planned(
        "listeners=SSL://127.0.0.1:1,MY_CLIENTS://127.0.0.1:2",
        "listener.security.protocol.map=MY_CLIENTS:SSL",
        "ssl.keystore.certificate.chain=chain",
        "ssl.keystore.key=key",
        "ssl.client.auth=required",
        "listener.name.My_Clients.ssl.client.auth=none",
        QANAT_LISTENER_NAME_MY_CLIENTS_SSL_KEYSTORE_LOCATION="theirs.pem",
    )
    common, own = (one.tls for one in plan.clients)

    assert (common.ssl_client_auth, common.ssl_keystore_location, common.ssl_keystore_key) == ("required", None, "key")
    assert (own.ssl_client_auth, own.ssl_keystore_location, own.ssl_keystore_key) == ("none", "theirs.pem", None)


def test_brokers_use_the_listener_that_is_named() -> None:
    plan = planned(TWO, "inter.broker.listener.name=sasl_plaintext")

    assert [one.name for one in plan.clients] == ["PLAINTEXT"]
    assert plan.inter_broker is not None
    assert (plan.inter_broker.name, plan.inter_broker.is_inter_broker) == ("SASL_PLAINTEXT", True)


def test_the_listener_between_brokers_and_http_are_as_protected_as_that_of_clients() -> None:
    plan = planned(TWO, "inter.broker.port=9094")

    assert plan.inter_broker is not None
    assert plan.http is not None
    assert (plan.inter_broker.protocol, plan.http.protocol) == ("SASL_PLAINTEXT", "SASL_PLAINTEXT")
    plan = planned("inter.broker.port=9094", "metrics.port=0")
    assert {one.protocol for one in plan.all} == {"PLAINTEXT"}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (["listeners=PLAINTEXT://:1,PLAINTEXT://:2"], "there are two listeners PLAINTEXT"),
        (["listeners=HTTP://:1"], "no listener can be called HTTP"),
        (["listeners=CONTROLLER://:1"], "at least one listener"),
        ([TWO, "inter.broker.listener.name=X"], "listeners has PLAINTEXT, SASL_PLAINTEXT"),
        ([TWO, "inter.broker.listener.name=PLAINTEXT", "inter.broker.port=1"], "inter.broker.port is given as well"),
        ([TWO, "advertised.listeners=SSL://h:1"], "advertised.listeners has SSL, which listeners has not"),
        (["advertised.listeners=SSL://h:1,PLAINTEXT://h:2"], "there are several, but listeners has one"),
        (["listener.name.other.ssl.client.auth=none"], "there is no listener OTHER; there are PLAINTEXT, HTTP"),
        (["listener.name.plaintext.ssl.client.auht=none"], "did you mean ssl.client.auth?"),
        (["listener.name.plaintext.ssl.client.auth=some"], "listener.name.plaintext.ssl.client.auth = 'some'"),
        (["listener.name.plaintext.num.partitions=1"], "unknown setting 'listener.name.plaintext.num.partitions'"),
        (["listeners=SSL://127.0.0.1:1"], "listener SSL speaks SSL and has no certificate: set ssl.keystore.location"),
        (["ssl.enabled.protocols=TLSv1.1"], "'TLSv1.1' is not spoken"),
        (["ssl.enabled.protocols="], "ssl.enabled.protocols is empty"),
        (["ssl.keystore.type=JKS"], "ssl.keystore.type = 'JKS'"),
        (["ssl.keystore.location=a", "ssl.keystore.key=b", "ssl.keystore.certificate.chain=c"], "give one of them"),
        (["ssl.keystore.key=b"], "go together"),
        (["ssl.truststore.location=a", "ssl.truststore.certificates=b"], "give one of them"),
        (["ssl.principal.mapping.rules=nonsense"], "'nonsense' is no rule"),
    ],
)
def test_what_does_not_fit_is_refused(given: list[str], reason: str) -> None:
    assert reason in refusal(*given)


@pytest.mark.parametrize(
    "given",
    [
        ["host.name=0.0.0.0"],
        ["host.name=10.0.0.1"],
        ["host.name=queue.example.org"],
        ["host.name=::"],
        ["listeners=PLAINTEXT://:9092"],
        ["listeners=PLAINTEXT://127.0.0.1:9092,SSL://:9093", "ssl.keystore.location=x"],
        ["listeners=SSL://:9093", "ssl.keystore.location=x", "ssl.client.auth=requested"],
        ["http.host.name=0.0.0.0"],
        ["http.host.name=0.0.0.0", "http.security.protocol=SSL", "ssl.keystore.location=x"],
        ["metrics.host.name=0.0.0.0", "metrics.port=0"],
        ["listener.security.protocol=SASL_PLAINTEXT", "http.security.protocol=PLAINTEXT", "http.host.name=0.0.0.0"],
        [
            *("listener.security.protocol=SASL_PLAINTEXT", "host.name=0.0.0.0"),
            *("inter.broker.port=1", "security.inter.broker.protocol=PLAINTEXT"),
        ],
    ],
)
def test_a_listener_beyond_loopback_without_authentication_is_refused_unless_told_so(given: list[str]) -> None:
    message = refusal(*given)
    assert "can be reached from other hosts" in message
    assert "allow.unauthenticated.clients=true" in message
    (told,) = [word for word in message.split() if "allow.unauthenticated.clients" in word]

    planned(*given, told)


@pytest.mark.parametrize(
    "given",
    [
        [],
        ["host.name=localhost"],
        ["host.name=127.0.0.2", "http.host.name=::1"],
        ["host.name=0.0.0.0", "listener.security.protocol=SASL_PLAINTEXT"],
        ["listeners=SSL://:9093", "ssl.keystore.location=x", "ssl.client.auth=required"],
        ["metrics.host.name=0.0.0.0", "metrics.port=0", "listener.name.metrics.allow.unauthenticated.clients=true"],
    ],
)
def test_loopback_and_listeners_with_authentication_are_served(given: list[str]) -> None:
    planned(*given)


def test_a_single_listener_named_for_brokers_is_a_notice_and_not_an_error() -> None:
    loaded = load([assignment("inter.broker.listener.name=PLAINTEXT")], None, {})

    assert any("inter.broker.listener.name" in one and "no effect" in one for one in loaded.notices)


SECRETS = ["ssl.keystore.key", "ssl.key.password", "listener.name.plaintext.ssl.key.password"]


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_in_no_repr_and_no_error(name: str) -> None:
    given = [assignment(f"{name}=hunter2"), assignment("ssl.keystore.certificate.chain=chain")]
    if name != "ssl.keystore.key":
        given.append(assignment("ssl.keystore.key=hunter3"))
    settings = load(given, None, {}).settings

    assert "hunter" not in repr(given) + repr(settings) + repr(plan_listeners(settings))
    with pytest.raises(InvalidSettingError) as caught:
        load([*given, given[0]], None, {})
    assert "hunter" not in str(caught.value)


def test_passwords_of_java_stores_are_a_notice_that_does_not_show_them() -> None:
    loaded = load([assignment("ssl.keystore.password=hunter2")], None, {})

    (notice,) = loaded.notices
    assert notice.startswith("ssl.keystore.password (-X ssl.keystore.password=[hidden]) has no effect: PEM")


def test_a_secret_comes_from_a_file_a_variable_or_a_command(tmp_path: Path) -> None:
    secret, file = tmp_path / "secret", tmp_path / "qanat.yml"
    secret.touch(0o600)
    secret.write_text("hunter2\n")
    file.write_text(f"ssl.key.password: ${{file:{secret}}}\nssl.keystore.location: ${{WHERE:here}}.pem\n")

    tls = load([], file, {}).settings.tls
    assert (tls.ssl_key_password, tls.ssl_keystore_location) == ("hunter2", "here.pem")
    tls = load([assignment("ssl.key.password=${env:KEY}")], None, {"KEY": "hunter3"}).settings.tls
    assert tls.ssl_key_password == "hunter3"
    tls = load([], None, {"QANAT_SSL_KEY_PASSWORD": "${command:echo hunter4}"}).settings.tls
    assert tls.ssl_key_password == "hunter4"


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("${env:NOWHERE}", "there is no environment variable NOWHERE"),
        ("${file:/nowhere}", "cannot read /nowhere: No such file"),
        ("${command:false}", "the command false gives no value: it ends with code 1"),
        ("${command:/nowhere/at all}", "the command /nowhere/at gives no value: No such file"),
        ("${command:sh -c 'echo hunter2; exit 3'}", "the command sh gives no value: it ends with code 3"),
    ],
)
def test_a_reference_that_leads_nowhere_is_one_sentence(reference: str, reason: str) -> None:
    message = refusal(f"ssl.key.password={reference}")

    assert reason in message
    assert "hunter2" not in message


def test_a_secret_in_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    secret.chmod(0o644)

    assert "chmod 600" in refusal(f"ssl.key.password=${{file:{secret}}}")
    planned(f"ssl.cipher.suites=${{file:{secret}}}")
