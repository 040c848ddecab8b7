"""What clients may write executes nothing; other pages and users without rights get nothing."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from tests.console.browsing import visit
from tests.servers.http.serving import ServedNode, node_settings, served

from qanat.security.settings import SecuritySettings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PIECES = (
    "<script>executed++</script>",
    "<img src=x onerror=executed++>",
    "<svg onload=executed++>",
    "javascript:executed++",
    "</td></table><iframe srcdoc='<script>parent.executed++</script>'>",
    '" onfocus="executed++" autofocus="',
    "{{constructor.constructor('executed++')()}}",
    "${executed++}",
    "<style>*{background:url(//evil.example/x)}</style>",
    "<base href=//evil.example/>",
    "\u202eevil\u202c",
    "\x00\x07\x1b[31m",
    "</textarea><script>executed++</script>",
    "data:text/html,<script>executed++</script>",
    '{"__proto__":{"executed":1},"constructor":1}',
    "__proto__",
    "]]><!--",
)


def hostile(number: int) -> str:
    """A text of a few hostile pieces, another one for each number."""
    draw = random.Random(number)
    return "".join(draw.choice(PIECES) for _ in range(draw.randint(1, 3))) + str(number)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    """A broker with a super user, root, and a user without rights, bob."""
    folder: Path = tmp_path_factory.mktemp("secured")
    password = folder / "password"
    password.write_text("secret\n")
    password.chmod(0o600)
    for user in ("root", "bob"):
        words = ["user", "add", user, "--password-file", str(password), "--data-dir", str(folder / "data")]
        subprocess.run([sys.executable, "-m", "qanat.app", *words], check=True, timeout=60)
    security = SecuritySettings(
        listener_security_protocol="SASL_PLAINTEXT",
        sasl_enabled_mechanisms="SCRAM-SHA-256",
        authorizer_class_name="StandardAuthorizer",
        super_users="User:root",
    )
    with served(replace(node_settings(str(folder / "data")), security=security)) as node:
        yield node


def test_a_thousand_hostile_keys_values_and_headers_execute_nothing(browser: Browser, node: ServedNode) -> None:
    node.post("/api/v1/topics", {"name": "hostile", "partitions": 1})
    rows: list[dict[str, Any]] = [
        {
            "key": hostile(n),
            "value": hostile(n + 1000) if n % 2 else {hostile(n): hostile(n + 1)},
            "headers": {hostile(n + 2000): hostile(n + 3000)},
        }
        for n in range(1000)
    ]
    for begin in range(0, 1000, 250):
        assert node.post("/api/v1/topics/hostile/records", rows[begin : begin + 250]).status == 200
    with visit(browser, node) as visited:
        for begin in range(0, 1000, 100):
            page = visited.open(f"topics/hostile/records?from=offset:{begin}&where=offset%20%3C%20{begin + 100}")
            page.get_by_text("100 found").wait_for()
            visited.check()
        for number in (0, 1, 17):
            visited.open(f"topics/hostile/records?from=offset:{number}&where=offset%20%3D%3D%20{number}")
            page.get_by_role("button", name=f"Record {number} ").click()
            page.locator("dialog pre").wait_for()
            page.get_by_role("button", name="Edit and republish").click()
            page.locator("dialog textarea").first.wait_for()
            page.keyboard.press("Escape")
        assert page.locator("iframe, main script, main style, base").count() == 0


def test_hostile_names_of_groups_and_addresses_execute_nothing(browser: Browser, node: ServedNode) -> None:
    from urllib.parse import quote

    names = [hostile(n).replace("/", "|") for n in range(40)]
    for name in names:
        offsets = {"offsets": [{"topic": "orders", "partition": 0, "offset": 0}]}
        assert node.post(f"/api/v1/groups/{quote(name, safe='')}/offsets", offsets).status == 200
    with visit(browser, node) as visited:
        page = visited.open("groups")
        assert page.locator("tbody tr").count() >= 20
        for name in names[:6]:
            visited.open(f"groups/{quote(name, safe='')}")
            visited.open(f"topics/{quote(name, safe='')}")
            visited.open(f"{quote(name, safe='')}/x")
        assert page.locator("iframe, main script, main style, base").count() == 0


def test_a_user_signs_in_sees_what_rules_allow_and_signs_out(browser: Browser, secured: ServedNode) -> None:
    with visit(browser, secured) as visited:
        page = visited.page
        page.goto(f"{secured.url}/console/")
        page.get_by_label("User").fill("root")
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("name or password is wrong").wait_for()
        page.get_by_label("Password").fill("secret")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="Overview").wait_for()
        page.get_by_text("User:root").wait_for()
        assert page.evaluate("document.cookie") == ""  # No script can read it.
        page.get_by_role("link", name="Users and rules").click()
        page.get_by_text("bob").wait_for()
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("heading", name="Sign in to Qanat").wait_for()
        assert secured.get("/api/v1/whoami").status == 401


AS_THE_CONSOLE = """async ([method, address, body]) => {
  const session = await import("/console/api.js");
  return session.request(method, address, body ?? undefined).then(() => 200, (fault) => fault.status);
}"""
"""A request as the console's own code makes it."""


def test_a_user_without_rights_sees_and_does_no_more_than_the_api_lets_it(
    browser: Browser, secured: ServedNode
) -> None:
    import base64

    root = {"Authorization": "Basic " + base64.b64encode(b"root:secret").decode()}

    def as_root(method: str, address: str, body: object = None) -> Any:
        answer = secured.call(method, address, body, root)
        assert answer.status in (200, 201), answer.body
        return answer.json

    as_root(
        "POST", "/api/v1/topics", {"name": "secret-topic", "partitions": 1, "configs": {"retention.ms": "987654321"}}
    )
    as_root("POST", "/api/v1/topics/secret-topic/records", {"key": "secret-key", "value": "secret-value"})
    offsets = [{"topic": "secret-topic", "partition": 0, "offset": 1}]
    as_root("POST", "/api/v1/groups/secret-group/offsets", {"offsets": offsets})
    with visit(browser, secured) as visited:
        page = visited.page
        page.goto(f"{secured.url}/console/")
        page.get_by_label("User").fill("bob")
        page.get_by_label("Password").fill("secret")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="Overview").wait_for()
        visited.open("topics")
        page.get_by_text("There is no topic yet.").wait_for()
        page.get_by_role("button", name="New topic").click()
        page.get_by_label("Name").fill("by-bob")
        page.get_by_role("button", name="Create").click()
        page.get_by_text("TOPIC_AUTHORIZATION_FAILED").or_(page.get_by_text("AUTHORIZATION_FAILED")).first.wait_for()
        for screen, refusal in (
            ("topics/secret-topic", "TOPIC_AUTHORIZATION_FAILED"),
            ("topics/secret-topic/records", "TOPIC_AUTHORIZATION_FAILED"),
            ("topics/secret-topic/dead-letters", "TOPIC_AUTHORIZATION_FAILED"),
            ("groups/secret-group", "GROUP_AUTHORIZATION_FAILED"),
            ("security", "CLUSTER_AUTHORIZATION_FAILED"),
            ("groups", ""),
            ("queues", ""),
            ("transactions", ""),
            ("overview", ""),
            ("clients", ""),
            ("diagnosis", ""),
            ("edge", ""),
        ):
            page.goto(f"{secured.url}/console/#/{screen}")
            (page.locator("main").get_by_text(refusal) if refusal else page.locator("h1")).first.wait_for()
            page.wait_for_load_state("networkidle")
            shown = page.locator("main").inner_text()
            for secret in ("secret-value", "secret-key", "987654321"):
                assert secret not in shown, screen
            if "secret" not in screen:
                assert "secret-" not in shown, screen
        for method, address, body in (
            ("POST", "/topics/secret-topic/records", {"value": "by bob"}),
            ("DELETE", "/topics/secret-topic", None),
            ("PATCH", "/configs/topics/secret-topic", {"configs": {"retention.ms": "1"}}),
            ("POST", "/groups/secret-group/offsets", {"offsets": [{**offsets[0], "offset": 0}]}),
            ("POST", "/topics/secret-topic/dead-letters/redrive", {}),
            ("DELETE", "/groups/secret-group", None),
        ):
            status = page.evaluate(AS_THE_CONSOLE, [method, address, body])
            assert status == 403, (method, address, status)
        assert "by-bob" not in secured.call("GET", "/api/v1/topics", None, root).body.decode()
    assert as_root("GET", "/api/v1/topics/secret-topic")["configs"]["retention.ms"] == "987654321"
    assert len(as_root("GET", "/api/v1/topics/secret-topic/records?count=10")["messages"]) == 1
    (committed,) = as_root("GET", "/api/v1/groups/secret-group")["partitions"]
    assert committed["committed_offset"] == 1


class _OtherPage(BaseHTTPRequestHandler):
    """A page of another address that tries what it can."""

    target = ""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<h1>another page</h1>")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_another_page_reads_and_writes_nothing_with_the_session(browser: Browser, secured: ServedNode) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _OtherPage)
    Thread(target=server.serve_forever, daemon=True).start()
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(f"{secured.url}/console/")
        page.get_by_label("User").fill("root")
        page.get_by_label("Password").fill("secret")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="Overview").wait_for()
        other = context.new_page()
        other.goto(f"http://127.0.0.1:{server.server_port}/")
        statuses = other.evaluate(
            """async (target) => {
              const seen = [];
              const write = { method: "POST", body: '{"name": "by-another"}' };
              for (const [path, given] of [["/api/v1/users", {}], ["/api/v1/topics", write]]) {
                const asked = fetch(target + path, { credentials: "include", mode: "no-cors", ...given });
                seen.push(await asked.then((answer) => answer.type + answer.status, () => "refused"));
              }
              return seen;
            }""",
            secured.url,
        )
        assert set(statuses) <= {"opaque0", "refused"}
        found = page.evaluate("fetch('/api/v1/topics').then((one) => one.text())")
        assert "by-another" not in found
        frame = other.evaluate(
            """(target) => new Promise((done) => {
              const one = document.createElement("iframe");
              one.onload = () => {
                try { done(one.contentDocument ? "blank" : "blocked"); } catch { done("blocked"); }
              };
              one.src = target + "/console/";
              document.body.append(one);
            })""",
            secured.url,
        )
        assert frame == "blocked"
    finally:
        context.close()
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def proxied(node: ServedNode) -> Iterator[str]:
    """`qanat console`, and its address."""
    command = [sys.executable, "-m", "qanat.app", "console", node.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        line = running.stdout.readline()
        yield line.partition(" is at ")[2].partition("/console/")[0]
        running.terminate()


def test_the_console_of_a_broker_elsewhere_does_what_its_own_does(
    browser: Browser, node: ServedNode, proxied: str
) -> None:
    import http.client

    with visit(browser, node, url=proxied) as visited:
        page = visited.open("topics/orders/records")
        page.get_by_text("customer-").first.wait_for()
        page.get_by_role("button", name="Produce").click()
        page.locator("[name=value]").fill("over the proxy")
        page.get_by_role("dialog").get_by_role("button", name="Produce").click()
        page.get_by_text("Written: partition").wait_for()
    refused = {}
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        connection = http.client.HTTPConnection(proxied.removeprefix("http://"), timeout=30)
        connection.request("GET", "/api/v1/topics", headers=headers)
        refused[next(iter(headers))] = connection.getresponse().status
        connection.close()
    assert refused == {"Host": 421, "Origin": 403, "Sec-Fetch-Site": 403}
