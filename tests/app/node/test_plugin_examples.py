"""The example plug-ins of the documentation: taken from their pages, installed, and used."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PAGES = Path(__file__).resolve().parents[3] / "docs" / "extending"

USES = {
    "assignors": """
        from qanat.app.node.plugins import partition_assignors
        from qanat.groups.assignors.assignor import AssignedMember
        from qanat.testing import EmbeddedBroker

        (assignor,) = partition_assignors(["modulo"]).values()
        members = {"a": AssignedMember(("t", "u")), "b": AssignedMember(("t",))}
        for member, held in assignor.assign(members, {"t": 3, "u": 2, "v": 1}).items():
            print(member, *(f"{at.topic}-{at.partition}" for at in held))
        with EmbeddedBroker(settings={"group.consumer.assignors": "modulo,uniform"}):
            print("started")
    """,
    "authenticators": """
        import time
        from confluent_kafka import KafkaException, Producer
        from confluent_kafka.admin import AdminClient
        from qanat.testing import EmbeddedBroker
        from qanat_signed_tokens import sign

        def client(broker, token):
            return {
                "bootstrap.servers": broker.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "oauth_cb": lambda _: (token, time.time() + 3600),
            }

        settings = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "OAUTHBEARER"}
        with EmbeddedBroker(settings=settings) as broker:
            producer = Producer(client(broker, sign("alice", b"shared")))
            producer.produce("orders", b"v")
            print(producer.flush(30), [record.value for record in broker.records("orders")])
            forger = AdminClient(client(broker, sign("alice", b"guessed")))
            try:
                forger.poll(0)
                forger.list_topics(timeout=3)
            except KafkaException:
                print("refused", broker.node.listener.counters.not_authenticated >= 1)
    """,
    "authorizers": """
        import os
        import sys
        from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
        from confluent_kafka.admin import AdminClient, NewTopic
        from qanat.testing import EmbeddedBroker

        def client(broker, name, **more):
            return {
                "bootstrap.servers": broker.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": name,
                "sasl.password": "pw-" + name,
                **more,
            }

        def produced(producer, topic):
            codes = []
            producer.produce(topic, b"v", on_delivery=lambda error, _: codes.append(error.name() if error else "ok"))
            producer.flush(30)
            return codes

        with open(sys.argv[1], "w") as file:
            file.write("alice:pw-alice\\nbob:pw-bob\\nadmin:pw-admin\\n")
        os.chmod(sys.argv[1], 0o600)
        settings = {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.plain.credentials.file": sys.argv[1],
            "authorizer.class.name": "homes",
            "super.users": "User:admin",
        }
        with EmbeddedBroker(settings=settings) as broker:
            admin = AdminClient(client(broker, "admin"))
            for outcome in admin.create_topics([NewTopic("alice.orders", 1), NewTopic("public.news", 1)]).values():
                outcome.result(30)
            print(produced(Producer(client(broker, "alice")), "alice.orders"))
            print(produced(Producer(client(broker, "bob")), "alice.orders"))
            print(sorted(AdminClient(client(broker, "bob")).list_topics(timeout=30).topics))
            try:
                bob = AdminClient(client(broker, "bob"))
                (outcome,) = bob.delete_topics(["alice.orders"]).values()
                outcome.result(30)
            except KafkaException as refused:
                print(refused.args[0].name())
            for group in ("bob.readers", "alice.readers"):
                reader = Consumer(client(broker, "bob", **{"group.id": group, "auto.offset.reset": "earliest"}))
                reader.subscribe(["public.news"])
                if group == "bob.readers":
                    while not reader.assignment():
                        reader.poll(0.1)
                    print("joined")
                else:
                    message = reader.poll(30)
                    print(message.error().name())
                reader.close()
    """,
}

PRINTED = {
    "assignors": ["a t-0 t-2 u-0 u-1", "b t-1", "started"],
    "authenticators": ["0 [b'v']", "refused True"],
    "authorizers": [
        "['ok']",
        "['TOPIC_AUTHORIZATION_FAILED']",
        "['public.news']",
        "TOPIC_AUTHORIZATION_FAILED",
        "joined",
        "GROUP_AUTHORIZATION_FAILED",
    ],
}


@pytest.mark.parametrize("page", sorted(USES))
def test_the_example_of_a_page_is_installed_and_used(tmp_path: Path, page: str) -> None:
    text = (PAGES / f"{page}.md").read_text()
    blocks = dict(re.findall(r"```(toml|python)\n(.*?)```", text, re.DOTALL))
    (module,) = re.findall(r'py-modules = \["(\w+)"\]', blocks["toml"])
    package, target = tmp_path / "package", tmp_path / "site"
    package.mkdir()
    (package / "pyproject.toml").write_text(blocks["toml"])
    (package / f"{module}.py").write_text(blocks["python"])
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(target)]
    subprocess.run([*pip, *offline, str(package)], check=True, capture_output=True, text=True)

    path = os.pathsep.join(filter(None, (str(target), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(USES[page]), str(tmp_path / "credentials")],
        env={**os.environ, "PYTHONPATH": path, "TOKEN_SECRET": "shared"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == PRINTED[page], done.stderr
