"""An identity provider for tests: keys of several kinds, tokens signed by PyJWT, and a real JWKS endpoint."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE, ISSUER = "qanat", "https://login.example/"


class KeyPair:
    """A private key, and its row in a JWKS document."""

    def __init__(self, key_id: str, algorithm: str = "RS256") -> None:
        self.key_id, self.algorithm = key_id, algorithm
        self.private: Any
        if algorithm[:2] in ("RS", "PS"):
            self.private = rsa.generate_private_key(65537, 2048)
            row = RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        elif algorithm == "EdDSA":
            self.private = ed25519.Ed25519PrivateKey.generate()
            row = OKPAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        else:
            curve = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}[algorithm]
            self.private = ec.generate_private_key(curve)
            row = ECAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        self.row: dict[str, Any] = {**row, "kid": key_id, "use": "sig", "alg": algorithm}
        self.row.pop("key_ops", None)

    def sign(self, claims: dict[str, Any], **header: Any) -> str:
        return jwt.encode(claims, self.private, self.algorithm, {"kid": self.key_id, **header})

    def token(self, name: str = "alice", lives_s: float = 3600, **more: Any) -> str:
        """A token that ends some time from now; a claim of None is left out."""
        return self.sign(claims_of(name, int(time.time()), lives_s, **more))


def claims_of(name: str, now_s: float, lives_s: float = 3600, **more: Any) -> dict[str, Any]:
    made = {"sub": name, "iss": ISSUER, "aud": AUDIENCE, "iat": now_s - 60, "exp": now_s + lives_s, **more}
    return {claim: value for claim, value in made.items() if value is not None}


def jwks(*keys: KeyPair) -> bytes:
    return json.dumps({"keys": [key.row for key in keys]}).encode()


class JwksServer:
    """Answers every GET with `body`, `status` and `headers`, and counts them; `gate` holds the answers."""

    def __init__(self, body: bytes = b"") -> None:
        self.body, self.status = body, 200
        self.headers: dict[str, str] = {"Content-Type": "application/json"}
        self.paths: list[str] = []
        self.forms: list[tuple[str, bytes]] = []
        """Authorization and body of every POST."""
        self.respond: Callable[[BaseHTTPRequestHandler], None] | None = None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/keys"

    def publish(self, *keys: KeyPair) -> None:
        self.body = jwks(*keys)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                served.paths.append(self.path)
                if served.respond is not None:
                    served.respond(self)
                    return
                self.send_response(served.status)
                for name, value in served.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(served.body)))
                self.end_headers()
                self.wfile.write(served.body)

            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                served.forms.append((self.headers.get("Authorization", ""), self.rfile.read(size)))
                self.do_GET()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        return Handler

    def __enter__(self) -> JwksServer:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def provider(*keys: KeyPair) -> Iterator[JwksServer]:
    with JwksServer(jwks(*keys)) as server:
        yield server


def settings_of(server: JwksServer, **more: object) -> dict[str, object]:
    """The settings of a broker that trusts this provider, and does not limit failed logins."""
    return {
        "login.failures.per.user": 0,
        "login.failures.per.address": 0,
        "listener.security.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": server.url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        **more,
    }
