"""Every command of these pages runs as it stands, against real brokers, and prints what the page says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.documents.blocks import ROOT, blocks_of
from tests.documents.page_runner import Page, run
from tests.documents.tables import exceptions_of

STOP = "python -c 'from tests.documents.qanat_here import stop; stop()'"
ORDERS = """\
qanat start
qanat topic create orders --partitions 1
echo 'ann={"amount": 500}' | qanat produce orders -k = -H trace=x1
"""
QUEUE = """\
qanat start
qanat topic create mails --partitions 1
qanat config set group GROUP share.auto.offset.reset=earliest
echo hello | qanat produce mails
"""
LEFT = """\
curl -s -X POST http://localhost:8080/api/v1/queues/workers/acquire -H "Content-Type: application/json" \\
  -d '{"topics": ["mails"], "count": 10, "timeout_ms": 5000}' > acquired.json
curl -s -X DELETE "http://localhost:8080/api/v1/queues/workers/members/$(jq -r .member_id acquired.json)"
"""
PROTECTED = """\
unset QANAT_PORT
export QANAT_USER_PASSWORD='correct horse battery'
qanat user add admin --data-dir ./data
qanat start --data-dir ./data -X listeners=SASL_PLAINTEXT://127.0.0.1:9092 \\
    -X sasl.enabled.mechanisms=SCRAM-SHA-512,SCRAM-SHA-256 \\
    -X authorizer.class.name=StandardAuthorizer -X super.users=User:admin
export QANAT_CLIENT_SECURITY_PROTOCOL=SASL_PLAINTEXT QANAT_CLIENT_SASL_MECHANISM=SCRAM-SHA-512
export QANAT_CLIENT_SASL_USERNAME=admin QANAT_CLIENT_SASL_PASSWORD='correct horse battery'
qanat user add alice
"""
BROKER_YAML = """\
cat > broker.yaml <<'YAML'
auto.create.topics.enable: false
authorizer.class.name: StandardAuthorizer
super.users: User:admin
YAML
"""
ON_ITS_PORT = ("--host queue-1.example", "--host queue-1.example --port 9092")
SUBSCRIBED = "qanat push subscribe prices --group till"
IN_THE_BACKGROUND = f"""\
{SUBSCRIBED} > printed.txt 2>&1 &
until qanat push list | grep -q till; do sleep 0.1; done"""
REFRESHED = "qanat push refresh till --topic prices"
WATCHED = "qanat push subscribe price-topic --group watchers -f '%o %k %v\\n'"
WATCHING = f"""\
{WATCHED} > printed.txt 2>&1 &
until qanat push list | grep -q watchers; do sleep 0.1; done
"""
WATCHED_PRICES = "printf 'AAPL=189.5\\nGOOGL=140.2\\n' | qanat push produce price-topic -k ="
UNTIL_DEGRADED = "until curl -s localhost:8082/health | jq -e '.status == \"DEGRADED\"'"
RUN = {
    "README.md": Page(),
    "docs/client/push.md": Page(
        "qanat start\nqanat topic create prices --partitions 1",
        (
            (SUBSCRIBED, IN_THE_BACKGROUND),
            (REFRESHED, f"{REFRESHED}\nuntil grep -q 182.30 printed.txt; do sleep 0.1; done\nkill %1"),
        ),
    ),
    "docs/concepts/share-groups.md": Page(QUEUE.replace("GROUP", "workers") + LEFT),
    "docs/edge/acceptance.md": Page(),
    "docs/edge/consumer-application.md": Page(),
    "docs/edge/operations.md": Page("unset QANAT_PORT QANAT_HTTP_PORT"),
    "docs/operating/alerts.md": Page("mkdir -p prometheus/rules grafana/dashboards", (("/etc/", ""),)),
    "docs/operating/bench.md": Page(
        "qanat start", (("--records 1000000", "--records 2000"), ("--seconds 30", "--seconds 1"), ("200000", "2000"))
    ),
    "docs/operating/client-metrics.md": Page("qanat start"),
    "docs/operating/cluster.md": Page(),
    "docs/operating/command-line.md": Page(
        ORDERS + "qanat profile set local --bootstrap localhost:9092",
        (("kafka-1:9092,kafka-2:9092", "localhost:9092"),),
    ),
    "docs/operating/data-directory.md": Page(ORDERS + STOP),
    "docs/operating/environments.md": Page(f"unset QANAT_PORT\n{BROKER_YAML}", (ON_ITS_PORT,)),
    "docs/operating/diagnosis.md": Page(
        "qanat start", (("--seconds 5", "--seconds 1"), ("--once", "--once --every 0.5"))
    ),
    "docs/operating/handlers.md": Page(),
    "docs/operating/metrics.md": Page(),
    "docs/operating/migration.md": Page("qanat start"),
    "docs/operating/tuning.md": Page("qanat start", (("20000", "2000"), ("--seconds 5", "--seconds 1"))),
    "docs/protocols/http.md": Page(QUEUE.replace("GROUP", "mailers")),
    "docs/spark/backup-and-restore.md": Page(),
    "docs/security/operations.md": Page("qanat secure init --data-dir /var/lib/qanat"),
    "docs/security/commands.md": Page(
        "unset QANAT_PORT", (("--topic orders-eu", "--topic orders-eu # refused"), ON_ITS_PORT)
    ),
    "docs/security/users-and-acls.md": Page(PROTECTED, (("--topic orders", "--topic orders # refused"),)),
    "docs/tutorials/first-cluster.md": Page(
        instead=(
            ("git clone REPOSITORY qanat", f"git clone --quiet --depth 1 file://{ROOT} qanat"),
            ("make setup", "make help"),
            (". .venv/bin/activate", "true"),
        )
    ),
    "docs/tutorials/push.md": Page(
        "unset QANAT_PORT QANAT_HTTP_PORT\nexport NODE_ID=one BROKER_PORT=9092 HTTP_PORT=8080",
        (
            (f"{WATCHED}\n", WATCHING),
            (WATCHED_PRICES, f"{WATCHED_PRICES}\nuntil grep -q GOOGL printed.txt; do sleep 0.1; done\ncat printed.txt"),
            ("printf 'MSFT", "kill %1\nuntil [ $(qanat push list -o json) = '[]' ]; do sleep 0.1; done\nprintf 'MSFT"),
            (UNTIL_DEGRADED, f"kill $(cat .node-one.pid)\n{UNTIL_DEGRADED}"),
        ),
    ),
    "docs/tutorials/tree.md": Page("unset QANAT_PORT QANAT_HTTP_PORT"),
}
"""Each page with what it takes for granted, and with texts that a test has to replace."""
LONG = {
    "docs/operating/bench.md",
    "docs/operating/tuning.md",
    "docs/spark/backup-and-restore.md",
    "docs/tutorials/tree.md",
}
"""Pages with Spark, a tree of clusters, or measurements."""
DATA = {
    "README.md",
    "docs/edge/operations.md",
    "docs/operating/cluster.md",
    "docs/operating/command-line.md",
    "docs/operating/data-directory.md",
    "docs/operating/diagnosis.md",
    "docs/operating/environments.md",
    "docs/operating/handlers.md",
    "docs/operating/migration.md",
    "docs/security/commands.md",
    "docs/tutorials/first-cluster.md",
    "docs/tutorials/push.md",
}
"""Pages that `make test` has no time for, and `make test-data` has."""
SAFE = """\
unset QANAT_PORT
qanat secure init --data-dir safe --port 9092
qanat start --config safe/security/broker.yaml
cp safe/security/client.properties client.properties
QANAT_USER_PASSWORD=secret qanat user add me --command-config client.properties
export QANAT_CLIENT_SASL_PASSWORD=secret
qanat profile set staging --bootstrap localhost:9092 -X security.protocol=SASL_SSL -X sasl.mechanism=SCRAM-SHA-512 \\
    -X sasl.username=me
"""
TRUSTED = ("-X sasl.username=me", "-X sasl.username=me -X ssl.ca.location=safe/security/authority.pem")
"""The machine of a page trusts who signed the broker's certificate; this one does not."""


def _marks(page: str) -> list[pytest.MarkDecorator]:
    if page in DATA:
        return [pytest.mark.long, pytest.mark.data]
    return [pytest.mark.long] if page in LONG else []


@pytest.mark.skipif(not all(map(shutil.which, ("bash", "curl", "jq"))), reason="pages use bash, curl and jq")
@pytest.mark.parametrize("page", [pytest.param(one, marks=_marks(one)) for one in RUN])
def test_the_page_runs_as_it_stands(page: str, tmp_path: Path) -> None:
    blocks = [block for block in blocks_of(ROOT / page) if block.is_shell and not list(exceptions_of(block))]

    assert blocks
    run(blocks, RUN[page], tmp_path)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("bash") is None, reason="pages use bash")
def test_the_command_line_reaches_a_protected_broker_as_its_page_says(tmp_path: Path) -> None:
    page = ROOT / "docs" / "operating" / "command-line.md"
    (block,) = [one for one in blocks_of(page) if one.text.startswith("qanat topic list -X security.protocol")]

    run([block], Page(SAFE, (TRUSTED,)), tmp_path)
