"""A small identity provider: it signs tokens, and publishes the keys that they are checked with."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

AUDIENCE, ISSUER = "qanat", "https://login.example/"
REFRESH_MS = 2000
"""How often brokers fetch the keys."""
_ALGORITHM = "ES256"
LIFE_S = 12.0
"""Of a token: clients renew theirs during a run."""


class IdentityProvider:
    """Signs with its last key; publishes those that are in use."""

    def __init__(self) -> None:
        self._keys: dict[str, ec.EllipticCurvePrivateKey] = {}
        self._signing = ""
        self._made = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.tokens = 0

    def __enter__(self) -> IdentityProvider:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.publish_another()
        self.sign_with_the_last()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def settings(self) -> dict[str, str]:
        """Of a broker that accepts its tokens."""
        return {
            "sasl.oauthbearer.jwks.endpoint.url": f"http://127.0.0.1:{self._server.server_address[1]}/keys",
            "sasl.oauthbearer.jwks.endpoint.refresh.ms": str(REFRESH_MS),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
        }

    def publish_another(self) -> None:
        """A key that brokers learn before the first token is signed with it."""
        self._made += 1
        self._keys[f"key-{self._made}"] = ec.generate_private_key(ec.SECP256R1())

    def sign_with_the_last(self) -> None:
        self._signing = f"key-{self._made}"

    def remove_others(self) -> None:
        """Publish the signing key alone."""
        self._keys = {self._signing: self._keys[self._signing]}

    def token(self, name: str) -> tuple[str, float]:
        """A token, and when it ends."""
        self.tokens += 1
        return self.signer()(name)

    def signer(self) -> Callable[[str], tuple[str, float]]:
        """Makes tokens with the key of now, whatever becomes of it."""
        key_id, key = self._signing, self._keys[self._signing]

        def sign(name: str) -> tuple[str, float]:
            now = int(time.time())
            ends = now + LIFE_S
            claims = {"sub": name, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": int(ends)}
            return jwt.encode(claims, key, _ALGORITHM, {"kid": key_id}), ends

        return sign

    def _document(self) -> bytes:
        rows = []
        for key_id, key in list(self._keys.items()):
            row: dict[str, Any] = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
            rows.append({**row, "kid": key_id, "use": "sig", "alg": _ALGORITHM})
        return json.dumps({"keys": rows}).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = provider._document()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the class above
                """The run has its own report."""

        return Handler
