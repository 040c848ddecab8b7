"""`qanat bundle`: what is in it, what never is, and how it is opened."""

from __future__ import annotations

import asyncio
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.app.conftest import Run
from tests.console.conftest import fill
from tests.servers.http.serving import ServedNode, node_settings, served

from qanat.app.diagnosis import bundle_answers
from qanat.app.diagnosis.bundle_file import Bundle, StoredAnswer, read_bundle
from qanat.app.diagnosis.redaction import redacted, redacted_log, redacted_text
from qanat.app.main import run as run_qanat
from qanat.app.start.bundle_server import ConsoleBundle
from qanat.security.settings import SecuritySettings
from qanat.servers.http.problems import Problem

SECRET = "hunter2-planted"
LINES = (
    f"2026-01-31T09:30:00Z info login password={SECRET}",
    f"sasl.password: {SECRET} with words",
    f'user said {{"api_key": "{SECRET}"}}',
    f"listener.name.http.ssl.key.password = {SECRET}",
    f"ssl.keystore.key={SECRET}",
    f"edge.authorization=Bearer {SECRET}",
    f"Authorization: Basic {SECRET}",
    f"authorization: Bearer {SECRET}",
    f"X-Api-Key: {SECRET}",
    f"Set-Cookie: qanat-session={SECRET}; Path=/",
    f"connecting to https://ann:{SECRET}@registry.example/",
    f"key qk_{SECRET} was used",
    f"token eyJ{SECRET}.abc.def",
    f"sasl.jaas.config=PlainLoginModule required username=a password='{SECRET}';",
    f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----",
    f"-----BEGIN EC PRIVATE KEY-----\n{SECRET}",
    f"QANAT_SSL_KEYSTORE_PASSWORD={SECRET}",
    f"--password {SECRET} is wrong: password is {SECRET}",
    f"aws.secret.access={SECRET}",
    f"db_pass={SECRET}",
    f"AccountName=shop;AccountKey={SECRET}==;EndpointSuffix=x",
    f"cache at redis://:{SECRET}@cache.example:6379/0",
    f'{{"event": "x", "token": "{SECRET}", "nested": {{"client_secret": ["{SECRET}"]}}}}',
)


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_no_planted_secret_stays_in_a_log(line: str) -> None:
    before, after = "first line\n", "\nlast line"
    text = redacted_log(before + line + after)

    assert SECRET not in text
    assert text.startswith("first line")


def test_documents_keep_their_form_and_lose_their_secrets() -> None:
    configs = [
        {"name": "ssl.key.password", "value": SECRET, "synonyms": [{"name": "ssl.key.password", "value": SECRET}]},
        {"name": "retention.ms", "value": "1000", "synonyms": []},
    ]
    found = redacted({"configs": configs, "next_page_token": "orders", "metadata": SECRET, "error": f"pwd={SECRET}"})

    assert SECRET not in json.dumps(found)
    assert found["configs"][1] == configs[1]
    assert found["next_page_token"] == "orders"


def test_what_is_no_secret_stays() -> None:
    for text in ("topic created topic=orders partitions=4", "compass=north", "retention.ms=5", "passage: 3"):
        assert redacted_text(text) == text


@pytest.fixture(scope="module")
def node() -> Iterator[ServedNode]:
    with served(node_settings()) as running:
        fill(running)
        rows = [{"key": SECRET, "value": {"note": SECRET}, "headers": {"authorization": SECRET}}]
        assert running.post("/api/v1/topics/orders/records", rows).status == 200
        offsets = [{"topic": "orders", "partition": 0, "offset": 1, "metadata": SECRET}]
        running.post("/api/v1/groups/planted/offsets", {"offsets": offsets})
        yield running


@pytest.fixture(scope="module")
def archive(node: ServedNode, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    (folder / "broker.log").write_text("\n".join(LINES))
    path = folder / "problem.zip"
    line = ["bundle", f"http://127.0.0.1:{node.port}", "--to", str(path), "--seconds", "2"]
    assert run_qanat([*line, "--log", str(folder / "broker.log")]) == 0
    return path


def test_a_bundle_holds_what_the_console_shows(archive: Path) -> None:
    bundle = read_bundle(archive)

    for path in ("cluster", "topics", "topics/orders", "groups/billing/lag", "queues/mailers", "diagnosis"):
        assert bundle.answers[f"/api/v1/{path}"].status == 200, path
    assert {one.status for one in bundle.answers.values()} <= {200, 404, 503}
    with zipfile.ZipFile(archive) as opened:
        assert b"qanat_requests_total" in opened.read("metrics-2.txt")
        assert b"first" not in opened.read("log-1.txt")


def test_a_cluster_that_does_not_answer_in_time_still_gets_a_bundle(
    node: ServedNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    get = bundle_answers.BrokerApi.get

    def stuck(api: bundle_answers.BrokerApi, path: str, within_s: float = 15.0) -> tuple[int, bytes]:
        if path.startswith(("/api/v1/cluster", "/api/v1/groups?", "/metrics")):
            raise bundle_answers.NoAnswerError(f"{path} does not answer: timed out")
        return get(api, path, within_s)

    monkeypatch.setattr(bundle_answers.BrokerApi, "get", stuck)
    path = tmp_path / "problem.zip"

    assert run_qanat(["bundle", f"http://127.0.0.1:{node.port}", "--to", str(path), "--seconds", "1"]) == 0

    bundle = read_bundle(path)
    assert bundle.answers["/api/v1/cluster"].status == 504
    assert "timed out" in bundle.answers["/api/v1/cluster"].document["detail"]
    assert bundle.answers["/api/v1/topics/orders"].status == 200
    assert bundle.manifest["failed"] == 2
    assert "2 requests had no answer in time" in capsys.readouterr().out


def test_no_secret_key_value_or_header_is_in_it(archive: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        texts = {name: opened.read(name).decode() for name in opened.namelist()}

    assert {name for name, text in texts.items() if SECRET in text} == set()
    assert "customer-1" not in texts["answers.json"]


def test_a_bundle_is_not_written_over_another_file(run: Run, archive: Path, node: ServedNode) -> None:
    address = f"http://127.0.0.1:{node.port}"
    again = run("bundle", address, "--to", str(archive))

    assert again.returncode != 0
    assert "is there already" in again.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("ftp://here",), "is no HTTP address"),
        (("http://127.0.0.1:1", "--to", "x.zip"), "does not answer"),
        (("--seconds", "0"), "from 1 to 60"),
        (("--log", "/nonexistent"), "cannot be read"),
        (("--credentials", "/nonexistent"), "cannot be read"),
    ],
)
def test_wrong_input_gets_one_sentence(
    run: Run, words: tuple[str, ...], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = run("bundle", *words)

    assert refused.returncode != 0
    assert reason in refused.stderr
    assert "Traceback" not in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_that_someone_has_changed_is_answered_with_a_refusal() -> None:
    answers = {
        "/api/v1/topics": StoredAnswer(200, {"topics": [1, {"name": "a"}, None]}),
        "/api/v1/groups": StoredAnswer(200, {"groups": "all"}),
        "/api/v1/whoami": StoredAnswer(200, [1]),
    }
    served = ConsoleBundle(Bundle({}, answers))

    assert json.loads(served._stored("/api/v1/topics", "sort=lag").body)["total"] == 1
    assert json.loads(served._stored("/api/v1/groups", "limit=x&offset=-1").body)["total"] == 0
    with pytest.raises(Problem, match="damaged"):
        served._stored("/api/v1/whoami", "")


def test_a_deeply_nested_archive_gets_one_sentence(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "deep.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", "[" * 200_000)
        archive.writestr("answers.json", "{}")
    refused = run("console", "--bundle", str(path))

    assert (refused.returncode != 0, "is no bundle" in refused.stderr) == (True, True)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not a zip at all"])
def test_a_file_that_is_no_bundle_gets_one_sentence(run: Run, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(content)
    refused = run("console", "--bundle", str(path))

    assert (refused.returncode != 0, "is no bundle" in refused.stderr) == (True, True)


def test_pages_of_other_addresses_get_nothing_of_a_bundle() -> None:
    served = ConsoleBundle(Bundle({}, {"/api/v1/cluster": StoredAnswer(200, {"id": "secret"})}))

    def asked(method: str = "GET", **headers: str) -> int:
        sent: list[dict[str, int]] = []

        async def send(message: dict[str, int]) -> None:
            sent.append(message)

        given = {"host": "127.0.0.1:80", **{name.replace("_", "-"): value for name, value in headers.items()}}
        scope = {
            "type": "http",
            "method": method,
            "path": "/api/v1/cluster",
            "raw_path": b"/api/v1/cluster",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        }
        asyncio.run(served(scope, None, send))  # type: ignore[arg-type]
        return sent[0]["status"]

    assert asked() == 200
    assert asked(host="evil.example") == 421
    assert asked(origin="http://evil.example") == 403
    assert asked(sec_fetch_site="cross-site") == 403
    assert asked("DELETE") == 409


def test_a_sign_in_comes_from_a_file(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    passwords, credentials = tmp_path / "passwords", tmp_path / "credentials"
    passwords.write_text(f"alice:{SECRET}\n")
    passwords.chmod(0o600)
    credentials.write_text(f"alice:{SECRET}\n")
    protected = SecuritySettings(
        listener_security_protocol="SASL_PLAINTEXT", sasl_plain_credentials_file=str(passwords)
    )
    with served(replace(node_settings(), security=protected)) as node:
        address = f"http://127.0.0.1:{node.port}"
        refused = run("bundle", address, "--seconds", "1")
        done = run("bundle", address, "--seconds", "1", "--to", "in.zip", "--credentials", str(credentials))

    assert (refused.returncode != 0, "--credentials" in refused.stderr) == (True, True)
    assert done.returncode == 0, done.stderr
    assert SECRET.encode() not in (tmp_path / "in.zip").read_bytes()
    assert read_bundle(tmp_path / "in.zip").answers["/api/v1/cluster"].status == 200
