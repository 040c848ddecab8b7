"""Tokens of OAUTHBEARER for a client: from a setting, a file, a variable, a command, or a token endpoint.

A token is read anew for every login, because it ends: what the source has by then is sent. A token of an endpoint
(OAuth's client credentials, RFC 6749) is kept until most of its time is over, for all connections of the process.

Rule: a token is never shown, nor is a secret or the output of a command. Reading blocks: call it in a worker.
"""

from __future__ import annotations

import base64
import os
import re
import threading
import time
from dataclasses import dataclass, field
from urllib.parse import quote_plus, urlencode

import msgspec

from qanat.connection.faults import UnreachableError
from qanat.connection.http_fetch import FetchFailedError, check_url, fetch
from qanat.connection.secret_references import read_reference, reference_in
from qanat.model.errors import InvalidSettingError

_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")
_KEPT_FOR = 0.8
"""The part of a token's time that it is kept for; a session is renewed after more of it (`sasl_session`)."""
_KEPT_MAX = 16


@dataclass(frozen=True, slots=True)
class TokenText:
    """A token, or a reference to where it is: `${file:…}`, `${env:…}`, `${command:…}`."""

    setting: str
    """The name of its setting, for messages."""
    text: str = field(repr=False)

    def read(self) -> str:
        """The token; raises `InvalidSettingError` where there is none."""
        reference = reference_in(self.text)
        if reference is None:
            return _checked(self.text, self.setting)
        where = "the output of its command" if reference.kind == "command" else f"what {reference.place} holds"
        return _checked(read_reference(reference, self.setting, os.environ), f"{self.setting}: {where}")


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """An endpoint that gives tokens to a client with a secret."""

    setting: str
    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""

    def read(self) -> str:
        """A token that is still good for a while.

        Raises `InvalidSettingError` where the endpoint refuses, `UnreachableError` where it does not answer.
        """
        with _KEPT_LOCK:
            until_s, token = _KEPT.get(self, (0.0, ""))
        if time.monotonic() < until_s:
            return token
        given = self._ask()
        token = _checked(given.access_token, f"{self.setting}: the answer")
        with _KEPT_LOCK:
            if len(_KEPT) >= _KEPT_MAX:
                _KEPT.clear()
            _KEPT[self] = time.monotonic() + _KEPT_FOR * max(0.0, given.expires_in), token
        return token

    def _ask(self) -> _Given:
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        pair = f"{quote_plus(self.client_id)}:{quote_plus(self.client_secret)}".encode()
        headers = {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        try:
            body = fetch(check_url(self.setting, self.url), headers=headers, form=urlencode(form).encode())
            return msgspec.json.decode(body, type=_Given)
        except FetchFailedError as fault:
            is_final = fault.status is not None and fault.status < 500
            reason = f"{self.setting} {self.url} gives no token: {fault}"
            raise (InvalidSettingError(reason) if is_final else UnreachableError(reason)) from None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise InvalidSettingError(f"{self.setting} {self.url} gives no token: it answers something else") from None


class _Given(msgspec.Struct):
    access_token: str
    expires_in: float = 0.0


_KEPT: dict[TokenEndpoint, tuple[float, str]] = {}
_KEPT_LOCK = threading.Lock()
TokenSource = TokenText | TokenEndpoint


def _checked(text: str, where: str) -> str:
    token = text.strip()
    if not _TOKEN.fullmatch(token):
        raise InvalidSettingError(f"{where} has no token: one line of letters, digits and -._~+/ is expected")
    return token
