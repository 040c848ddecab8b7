"""The first process of the image: what it makes of variables, and that a broker of these variables serves."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from deploy.image import entrypoint, healthcheck
from tests.app.processes import clean_environment
from tests.app.start.test_start import free_port

IMAGE = Path(entrypoint.__file__).parent
SEEDS = {"NODE_ID": "broker-001", "BROKER_PORT": "9092", "DATA_DIR": "/app/data"}


def test_the_seeds_variables_bind_all_addresses_and_advertise_the_published_port() -> None:
    assert entrypoint.security_of(SEEDS) == "secured"
    assert entrypoint.defaults(SEEDS) == {
        "HTTP_PORT": "8080",
        "QANAT_HTTP_HOST_NAME": "0.0.0.0",
        "QANAT_HOST_NAME": "0.0.0.0",
        "QANAT_ADVERTISED_HOST_NAME": "localhost",
    }
    config, words = entrypoint.securing({**SEEDS, **entrypoint.defaults(SEEDS)})
    assert config == Path("/app/data/security/broker.yaml")
    assert words == ["secure", "init", "--data-dir", "/app/data", "--host", "localhost", "--port", "9092"]


def test_what_is_given_is_never_changed() -> None:
    given = {"QANAT_DATA_DIR": "/mnt", "QANAT_PORT": "1", "QANAT_HTTP_PORT": "-1", "QANAT_HTTP_HOST_NAME": "::"}
    assert entrypoint.defaults(given) == {
        "QANAT_HOST_NAME": "0.0.0.0",
        "QANAT_ADVERTISED_HOST_NAME": "localhost",
    }


def test_a_broker_of_a_cluster_advertises_its_own_address() -> None:
    assert "QANAT_ADVERTISED_HOST_NAME" not in entrypoint.defaults({"QANAT_INTER_BROKER_PORT": "19092"})
    several = entrypoint.defaults({"QANAT_LISTENERS": "SASL_SSL://0.0.0.0:9092,BROKERS://0.0.0.0:9093"})
    assert {"QANAT_HOST_NAME", "BROKER_PORT", "QANAT_ADVERTISED_HOST_NAME"} & several.keys() == set()


def test_a_settings_file_of_ones_own_decides_everything() -> None:
    assert entrypoint.defaults({"QANAT_CONFIG": "/etc/qanat/broker.yaml"}) == {}


def test_a_broker_is_open_only_where_that_is_said() -> None:
    assert entrypoint.defaults({"SECURITY": "open"})["QANAT_ALLOW_UNAUTHENTICATED_CLIENTS"] == "true"
    for given in ({}, {"SECURITY": "secured"}, {"SECURITY": ""}):
        assert entrypoint.security_of(given) == "secured"
        assert "QANAT_ALLOW_UNAUTHENTICATED_CLIENTS" not in entrypoint.defaults(given)
    assert entrypoint.security_of({"QANAT_CONFIG": "/etc/qanat/broker.yaml"}) == "own"
    with pytest.raises(entrypoint.WrongVariableError, match="SECURITY=off: write secured"):
        entrypoint.security_of({"SECURITY": "off"})


@pytest.mark.parametrize(
    ("arguments", "is_start"), [([], True), (["start"], True), (["-X", "a=b"], True), (["topic", "list"], False)]
)
def test_other_commands_are_left_alone(arguments: list[str], is_start: bool) -> None:
    assert entrypoint.is_start(arguments) is is_start


def _run(folder: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    environment = clean_environment(**variables)
    environment.pop("QANAT_HTTP_PORT")
    return subprocess.Popen(
        [sys.executable, str(IMAGE / "entrypoint.py"), *arguments],
        cwd=folder,
        env=environment | {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("security", ["open", "secured"])
def test_a_container_serves_and_is_healthy(tmp_path: Path, security: str) -> None:
    ports = {"BROKER_PORT": str(free_port()), "HTTP_PORT": str(free_port())}
    given = {"NODE_ID": "broker-001", "DATA_DIR": str(tmp_path / "data"), "SECURITY": security, **ports}
    process = _run(tmp_path, **given)
    try:
        assert process.stdout is not None
        banner = {}
        for line in process.stdout:
            words = line.split(maxsplit=1)
            banner[words[0] if words else ""] = words[-1] if words else ""
            if line.startswith("  recovered"):
                break
        assert (
            banner["kafka"].strip() == f"0.0.0.0:{ports['BROKER_PORT']}, advertised as localhost:{ports['BROKER_PORT']}"
        )
        port = int(ports["HTTP_PORT"])
        assert healthcheck.status(port, "/health") == 200
        assert healthcheck.status(port, "/api/v1/topics") == (200 if security == "open" else 401)
        assert healthcheck.wait_restartable(port, 0)
        assert (tmp_path / "data" / "security" / "broker.yaml").exists() is (security == "secured")
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_wrong_variable_ends_in_one_sentence(tmp_path: Path) -> None:
    process = _run(tmp_path, SECURITY="maybe")
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 78
    assert said == "SECURITY=maybe: write secured (TLS, SCRAM and ACLs) or open (no protection)\n"


@pytest.fixture
def answering() -> Iterator[tuple[int, list[int]]]:
    """A server that answers with these statuses, the last one for ever."""
    statuses: list[int] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class says so
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield int(server.server_address[1]), statuses
        server.shutdown()


def test_a_container_waits_until_it_may_stop(answering: tuple[int, list[int]]) -> None:
    port, statuses = answering
    statuses[:] = [503, 200]
    assert healthcheck.wait_restartable(port, 60)
    assert statuses == [200]
    statuses[:] = [503]
    assert not healthcheck.wait_restartable(port, 0)


def test_a_broker_that_does_not_answer_is_unhealthy_and_may_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PORT", str(free_port()))
    monkeypatch.delenv("QANAT_HTTP_PORT", raising=False)
    assert healthcheck.main([]) == 1
    assert healthcheck.main(["wait-restartable", "60"]) == 0
