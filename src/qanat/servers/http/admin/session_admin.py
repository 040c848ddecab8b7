"""Signing in and out: a password, token or API key for the cookie of a session (`sessions`)."""

from __future__ import annotations

import base64
from typing import Annotated

import msgspec
from msgspec import Meta

from qanat.servers.http.admin.security_admin import WhoAmI, who_am_i
from qanat.servers.http.exchange import Exchange, refuse_other_sites
from qanat.servers.http.inputs import RequestBody
from qanat.servers.http.operations import Operation
from qanat.servers.http.problems import Problem
from qanat.servers.http.reply import Reply

Secret = Annotated[str, Meta(min_length=1, max_length=16_384)]


class SignIn(RequestBody, frozen=True):
    """Who signs in: a user with its password, or a token."""

    user: Annotated[str, Meta(max_length=255)] | None = None
    password: Annotated[str, Meta(max_length=1000)] | None = None
    token: Secret | None = None
    """A token of OAUTHBEARER, or an API key (`qk_…`)."""

    def __repr__(self) -> str:
        return f"SignIn({self.user!r})"


async def sign_in(exchange: Exchange) -> Reply:
    wanted: SignIn = exchange.body
    context, caller = exchange.context, exchange.caller
    refuse_other_sites(exchange, needs_origin=False)
    if not context.authentication.is_required:
        raise Problem(409, "this broker asks nobody to sign in: send requests as they are")
    if wanted.token is not None:
        authorization = b"Bearer " + wanted.token.encode()
    elif wanted.user is not None and wanted.password is not None:
        authorization = b"Basic " + base64.b64encode(f"{wanted.user}:{wanted.password}".encode())
    else:
        raise Problem(400, "name user and password, or token", pointer="/")
    accepted = await context.authentication.authenticate(authorization, caller)
    caller.authenticated(accepted)
    cookie = context.sessions.begin(accepted, caller, exchange.scope)
    body = msgspec.json.encode(await who_am_i(exchange))
    return Reply(201, body, headers=((b"set-cookie", cookie), (b"cache-control", b"no-store")))


async def sign_out(exchange: Exchange) -> Reply:
    refuse_other_sites(exchange, needs_origin=False)
    cookie = exchange.context.sessions.end(exchange.scope)
    return Reply(204, b"", headers=((b"set-cookie", cookie), (b"clear-site-data", b'"cache"')))


OPERATIONS = (
    Operation(
        "POST",
        "/api/v1/session",
        sign_in,
        "Sign in: begin a session, whose cookie counts like Authorization",
        "security",
        body=SignIn,
        answer=WhoAmI,
        status=201,
        is_public=True,
    ),
    Operation(
        "DELETE", "/api/v1/session", sign_out, "Sign out: end the session", "security", status=204, is_public=True
    ),
)
