"""Passwords, tokens, API keys and private keys appear in no output of a broker and of commands: grep finds none.

A real process with debug logging; every way to log in, right and wrong. `repr` of settings objects is in
`tests/app/node/test_secrets.py`.
"""

from __future__ import annotations

import json
import ssl
import subprocess
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.app.processes import RunningBroker, qanat, running_broker
from tests.security.identity_provider import AUDIENCE, ISSUER, KeyPair, provider
from tests.servers.tls.certificates import Authority

from qanat.app import main
from qanat.security.api_keys import compose

PASSWORD, SCRAM_PASSWORD, KEY_PASSWORD = "plain-password-1", "scram-password-2", "key-password-3"
BROKER_PASSWORD, WRONG_PASSWORD = "broker-password-4", "wrong-password-5"


def private(path: Path, content: str) -> Path:
    path.touch(0o600)
    path.write_text(content)
    return path


def encrypted(key: Path, password: str) -> str:
    """The key, encrypted with a password."""
    words = ["openssl", "pkcs8", "-topk8", "-in", str(key), "-passout", f"pass:{password}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


class Setup:
    """A broker's files, and every secret of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        self.authority = Authority(folder)
        shown = self.authority.server()
        key = encrypted(shown.key, KEY_PASSWORD)
        self.keystore = private(folder / "broker.pem", key + shown.chain.read_text())
        self.users = private(folder / "users", f"alice:{PASSWORD}\n")
        self.brokers = private(folder / "brokers", f"broker:{BROKER_PASSWORD}\n")
        self.signing, self.stranger = KeyPair("one"), KeyPair("two")
        self.token, self.wrong_token = self.signing.token("dave"), self.stranger.token("dave")
        self.wrong_key = compose("0123456789abcdef", "w" * 43)
        made = qanat("user", "add", "carol", "--data-dir", str(self.data), QANAT_USER_PASSWORD=SCRAM_PASSWORD)
        assert made.returncode == 0, made.stderr
        self.key = qanat("api-key", "add", "alice", "--data-dir", str(self.data)).stdout.strip()
        self.outputs = {"user add": made.stdout + made.stderr}
        passwords = (PASSWORD, SCRAM_PASSWORD, KEY_PASSWORD, BROKER_PASSWORD, WRONG_PASSWORD)
        keys = (shown.key.read_text().splitlines()[1], key.splitlines()[1])
        tokens = (self.token.split(".")[2], self.wrong_token.split(".")[2])
        self.secrets = (*passwords, *keys, *tokens, self.key.rpartition("_")[2], "w" * 43)

    def arguments(self, jwks_url: str) -> list[str]:
        settings: Mapping[str, object] = {
            "listeners": "SASL_SSL://127.0.0.1:0",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
            "sasl.plain.credentials.file": self.users,
            "sasl.oauthbearer.jwks.endpoint.url": jwks_url,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "inter.broker.port": 0,
            "inter.broker.credentials.file": self.brokers,
            "ssl.keystore.location": self.keystore,
            "ssl.key.password": "${env:KEY_PASSWORD}",
            "ssl.truststore.location": self.authority.trusted,
            "ssl.endpoint.identification.algorithm": "none",
            "http.port": 0,
            "metrics.port": 0,
        }
        return [
            "--data-dir",
            str(self.data),
            *(word for one in settings.items() for word in ("-X", "{}={}".format(*one))),
        ]

    def command(self, name: str, broker: RunningBroker, *words: str, **client: str) -> int:
        """Run a command with these settings of a client, in a file as they should be; keep all that it prints."""
        settings = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(self.authority.trusted), **client}
        lines = "\n".join(f"{one.replace('_', '.')}={value}" for one, value in settings.items())
        file = private(self.folder / f"{len(self.outputs)}.properties", lines)
        done = qanat(*words, "-b", broker.address, "--command-config", str(file))
        self.outputs[name] = done.stdout + done.stderr
        return done.returncode

    def get(self, name: str, url: str, **headers: str) -> int:
        """Ask HTTP; keep the whole answer."""
        context = ssl.create_default_context(cafile=str(self.authority.trusted))
        asked = urllib.request.Request(url, headers={one.replace("_", "-"): text for one, text in headers.items()})
        try:
            with urllib.request.urlopen(asked, timeout=60, context=context) as answer:
                self.outputs[name] = f"{answer.headers}{answer.read().decode()}"
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            self.outputs[name] = f"{refused.headers}{refused.read().decode()}"
            return refused.code


def log_in_everywhere(setup: Setup, broker: RunningBroker) -> None:
    listing, http = ("topic", "list"), f"{broker.started['http']}/api/v1/topics"
    plain = {"sasl_mechanism": "PLAIN", "sasl_username": "alice"}
    scram = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "carol"}
    token = {"sasl_mechanism": "OAUTHBEARER"}
    kafka = setup.command
    codes = [
        kafka("plain", broker, *listing, **plain, sasl_password=PASSWORD),
        kafka("scram", broker, *listing, **scram, sasl_password=SCRAM_PASSWORD),
        kafka("token", broker, *listing, **token, sasl_oauthbearer_token=setup.token),
        kafka("configs", broker, "config", "get", "broker", "0", **plain, sasl_password=PASSWORD),
        kafka("wrong plain", broker, *listing, **plain, sasl_password=WRONG_PASSWORD),
        kafka("wrong scram", broker, *listing, **scram, sasl_password=WRONG_PASSWORD),
        kafka("wrong token", broker, *listing, **token, sasl_oauthbearer_token=setup.wrong_token),
    ]
    assert codes[:4] == [0] * 4, setup.outputs
    assert all(codes[4:]), codes
    basic, wrong = (b64encode(f"alice:{one}".encode()).decode() for one in (PASSWORD, WRONG_PASSWORD))
    statuses = [
        setup.get("http basic", http, Authorization=f"Basic {basic}"),
        setup.get("http token", http, Authorization=f"Bearer {setup.token}"),
        setup.get("http key", http, X_API_Key=setup.key),
        setup.get("http configs", http.replace("topics", "configs/brokers/0"), X_API_Key=setup.key),
        setup.get("health", http.replace("api/v1/topics", "health"), X_API_Key=setup.key),
        setup.get("metrics", http.replace("api/v1/topics", "metrics"), X_API_Key=setup.key),
        setup.get("http wrong basic", http, Authorization=f"Basic {wrong}"),
        setup.get("http wrong token", http, Authorization=f"Bearer {setup.wrong_token}"),
        setup.get("http wrong key", http, X_API_Key=setup.wrong_key),
    ]
    assert statuses == [200] * 6 + [401] * 3, statuses


def test_grep_finds_no_secret_in_any_output_of_a_broker(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    environment = {"KEY_PASSWORD": KEY_PASSWORD}
    with provider(setup.signing) as keys:
        words = setup.arguments(keys.url)
        with running_broker(tmp_path, *words, environment=environment, log_level="debug") as broker:
            log_in_everywhere(setup, broker)
            broker.process.terminate()
            assert broker.process.wait(60) == 0
    setup.outputs["log"] = broker.log.read_text()
    setup.outputs["banner"] = (tmp_path / "banner.txt").read_text(errors="replace")
    stored = {f"data/{one.name}": one.read_bytes() for one in setup.data.rglob("*") if one.is_file()}

    assert "authentication failed" in setup.outputs["log"]
    assert "num.partitions" in setup.outputs["configs"]
    assert json.loads(setup.outputs["health"].partition("\n\n")[2])["status"] == "HEALTHY"
    assert "data/metadata.db" in stored
    for where, text in {**{name: text.encode() for name, text in setup.outputs.items()}, **stored}.items():
        for secret in setup.secrets:
            for form in (secret.encode(), b64encode(secret.encode()).rstrip(b"=")):
                assert form not in text, f"{secret} is in {where}"


SECRET = "hunter2-hunter2"
REFUSED = {
    "misspelled": (["-X", f"ssl.key.pasword={SECRET}"], "unknown setting 'ssl.key.pasword' (-X ssl.key.pasword)"),
    "misspelled, of a listener": (["-X", f"listener.name.http.ssl.key.pasword={SECRET}"], "unknown setting"),
    "Java's": (["-X", f'sasl.jaas.config=x password="{SECRET}";'], "unknown setting 'sasl.jaas.config'"),
    "another separator": (["-X", f"ssl.key.password:{SECRET}"], "-X ssl.key.password: write it as -X name=value"),
    "given twice": (["-X", f"ssl.key.password={SECRET}", "-X", f"ssl.key.password={SECRET}"], "is given twice"),
    "no key": (
        ["-X", "listeners=SSL://127.0.0.1:0", "-X", f"ssl.keystore.key={SECRET}", "-X", "ssl.keystore.location=x"],
        "ssl.keystore",
    ),
    "file of passwords": (
        ["-X", "listeners=SASL_PLAINTEXT://127.0.0.1:0", "-X", "sasl.plain.credentials.file=users"],
        "line 1 should read name:password",
    ),
    "file between brokers": (
        [
            *("-X", "security.inter.broker.protocol=SASL_PLAINTEXT"),
            *("-X", "inter.broker.port=0"),
            *("-X", "inter.broker.credentials.file=users"),
        ],
        "line 1 should read name:password",
    ),
    "no YAML": (["--config", "broken.yaml"], "is not YAML"),
    "nested": (["--config", "nested.yaml"], "unknown setting 'ssl.key.password.nested'"),
    "secret of others": (["-X", "ssl.key.password=${file:open}"], "ssl.key.password"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_start_does_not_show_the_secret(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    private(tmp_path / "users", f"alice {SECRET}\n")
    (tmp_path / "broken.yaml").write_text(f"ssl.key.password: [{SECRET}\nport: 1\n")
    (tmp_path / "nested.yaml").write_text(f"ssl:\n  key:\n    password:\n      nested: {SECRET}\n")
    (tmp_path / "open").write_text(SECRET)
    (tmp_path / "open").chmod(0o644)
    words, reason = REFUSED[case]

    assert main.run(["start", *words]) != 0
    printed = "".join(capfd.readouterr())
    assert reason in printed
    assert SECRET not in printed
