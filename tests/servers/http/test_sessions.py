"""Sessions of browsers: cookies, origins, and what ends them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.servers.http.serving import Answer, ServedNode, node_settings, served

from qanat.app import main
from qanat.security.settings import SecuritySettings


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    folder: Path = tmp_path_factory.mktemp("sessions")
    password = folder / "password"
    password.write_text("secret\n")
    password.chmod(0o600)
    data = folder / "data"
    assert main.run(["user", "add", "root", "--password-file", str(password), "--data-dir", str(data)]) == 0
    security = SecuritySettings(
        listener_security_protocol="SASL_PLAINTEXT",
        sasl_enabled_mechanisms="SCRAM-SHA-256",
        authorizer_class_name="StandardAuthorizer",
        super_users="User:root",
        login_failures_per_user=0,
        login_failures_per_address=0,
    )
    with served(replace(node_settings(str(data)), security=security)) as running:
        assert running.call("PUT", "/api/v1/users/bob", {"password": "first"}, basic("root", "secret")).status == 200
        yield running


def basic(user: str, password: str) -> dict[str, str]:
    import base64

    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def sign_in(node: ServedNode, user: str = "root", password: str = "secret") -> str:
    answer = node.call("POST", "/api/v1/session", {"user": user, "password": password})
    assert answer.status == 201, answer.body
    return answer.headers["set-cookie"].partition(";")[0]


def asked(node: ServedNode, cookie: str, method: str = "GET", path: str = "/api/v1/users", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return node.call(method, path, None if method == "GET" else {"name": "t"}, {"Cookie": cookie, **named})


def test_a_session_acts_as_its_user(node: ServedNode) -> None:
    answer = node.call("POST", "/api/v1/session", {"user": "root", "password": "secret"})
    cookie = SimpleCookie(answer.headers["set-cookie"])[f"qanat-session-{node.port}"]

    assert answer.json == {"principal": "User:root", "requires_sign_in": True, "authorizes": True}
    assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["secure"]) == (True, "Strict", "/", "")
    root, bob = sign_in(node), sign_in(node, "bob", "first")
    assert asked(node, root).status == 200
    refused = asked(node, bob)
    assert (refused.status, refused.json["principal"]) == (403, "User:bob")


def test_wrong_passwords_and_cookies_are_refused(node: ServedNode) -> None:
    assert node.call("POST", "/api/v1/session", {"user": "root", "password": "wrong"}).status == 401
    assert node.call("POST", "/api/v1/session", {"user": "root"}).status == 400
    assert asked(node, f"qanat-session-{node.port}=made-up").status == 401
    assert asked(node, sign_in(node) + "x").status == 401


def test_a_page_is_not_given_the_browsers_own_window(node: ServedNode) -> None:
    plain, page = node.get("/api/v1/users"), node.get("/api/v1/users", Sec_Fetch_Site="same-origin")

    assert plain.headers["www-authenticate"].startswith("Basic")
    assert page.headers["www-authenticate"].startswith("Session")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_requests_that_other_pages_cause_are_refused(node: ServedNode, headers: dict[str, str], method: str) -> None:
    cookie = sign_in(node)
    answer = node.call(method, "/api/v1/topics", {"name": "t"}, {"Cookie": cookie, **headers})

    assert (answer.status, "session" in answer.json["detail"]) == (403, True)


def test_a_write_by_cookie_names_its_origin(node: ServedNode) -> None:
    cookie = sign_in(node)

    assert asked(node, cookie, "POST", "/api/v1/topics").status == 403
    own = asked(node, cookie, "POST", "/api/v1/topics", Origin=f"http://127.0.0.1:{node.port}")
    assert own.status == 201


def test_another_port_of_this_machine_is_another_page_though_it_may_ask_with_a_password(node: ServedNode) -> None:
    context = node.node.http.context  # type: ignore[union-attr]
    allowed, page = context.origins._allowed, "http://127.0.0.1:1"
    context.origins._allowed = frozenset([page.encode()])
    try:
        assert node.call("GET", "/api/v1/users", None, {"Origin": page, **basic("root", "secret")}).status == 200
        assert asked(node, sign_in(node), Origin=page).status == 403
    finally:
        context.origins._allowed = allowed


def test_signing_out_ends_the_session(node: ServedNode) -> None:
    cookie = sign_in(node)
    own = {"Cookie": cookie, "Origin": f"http://127.0.0.1:{node.port}"}
    answer = node.call("DELETE", "/api/v1/session", headers=own)

    assert (answer.status, "Max-Age=0" in answer.headers["set-cookie"]) == (204, True)
    assert asked(node, cookie).status == 401


def test_a_changed_password_ends_the_sessions_of_its_user(node: ServedNode) -> None:
    node.call("PUT", "/api/v1/users/carol", {"password": "first"}, basic("root", "secret"))
    cookie, others = sign_in(node, "carol", "first"), sign_in(node)
    assert asked(node, cookie, path="/api/v1/whoami").status == 200

    node.call("PUT", "/api/v1/users/carol", {"password": "second"}, basic("root", "secret"))
    deadline = time.monotonic() + 60
    while asked(node, cookie, path="/api/v1/whoami").status != 401:
        assert time.monotonic() < deadline
        time.sleep(0.02)

    assert asked(node, others).status == 200


def test_rules_and_users_are_changed_over_http(node: ServedNode) -> None:
    rule = {"resource": "topic", "name": "mails", "principal": "User:bob", "operation": "read", "pattern": "prefixed"}
    root = basic("root", "secret")

    assert node.call("POST", "/api/v1/acls", rule, root).status == 201
    found = node.call("GET", "/api/v1/acls?search=MAILS", None, root).json["rules"]
    assert found == [{**rule, "permission": "allow", "host": "*"}]
    assert node.call("DELETE", "/api/v1/acls", rule, root).json == {"done": "deleted", "rules": 1}
    assert node.call("DELETE", "/api/v1/acls", rule, root).status == 404
    assert [one["user"] for one in node.call("GET", "/api/v1/users", None, root).json["users"]][:1] == ["bob"]
