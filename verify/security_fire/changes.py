"""What a rotation changes: certificates, the authority, passwords, API keys, keys of tokens, ACLs.

Each change is made as docs/security/operations.md says, so no client may notice more than a retriable error. Then what
was taken away is tried: it must not count any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any

from verify.security_fire.administration import (
    Administration,
    is_let_in,
    may_read,
    read,
    read_group,
    trusts,
    write,
)
from verify.security_fire.brokers import FireCluster
from verify.security_fire.client_set import (
    APP,
    AUDIT,
    GATEWAY,
    GUEST,
    LEGACY,
    ORDERS,
    POSTS,
    ROBOT,
    SIGNALS,
    ClientSet,
)
from verify.security_fire.clients import Reader, Writer
from verify.security_fire.http_clients import seconds_until_streams_end
from verify.security_fire.identity_provider import LIFE_S, REFRESH_MS, IdentityProvider

IN_FORCE_S = 1.0
"""How soon a change is in force on every broker."""
_RELOADED_S = 2.0
"""Brokers look at their files once a second."""
_STREAM_ENDS_S = 3.0
"""IN_FORCE_S, with room for a machine on which brokers have just been killed."""


class Changes:
    """The changes of one cluster."""

    def __init__(self, cluster: FireCluster, clients: ClientSet, provider: IdentityProvider, random: Random) -> None:
        self._cluster, self._clients, self._provider, self._random = cluster, clients, provider, random
        self.problems: list[str] = []
        self._is_by_prefix = False
        """How the rules of `app` name its topic; it changes."""

    @property
    def all(self) -> list[Callable[[], None]]:
        return [
            *(self.certificate, self.authority, self.password_of_app, self.password_of_audit),
            *(self.api_key, self.keys_of_tokens, self.rules, self.guest),
        ]

    def prepare(self) -> None:
        """Topics, users, rules and keys that the clients start with."""
        clients = self._clients
        self._admin = Administration(clients.as_admin, self._cluster.store_file)
        self._admin.create_topics(clients.ledgers)
        clients.passwords = {user: self._admin.set_password(user) for user in (APP, AUDIT, LEGACY, GUEST)}
        self._admin.allow(
            *(write(APP, ORDERS), write(LEGACY, ORDERS), write(ROBOT, SIGNALS)),
            *(read(AUDIT, ORDERS), read_group(AUDIT, "fire"), write(GATEWAY, POSTS), read(GATEWAY, POSTS)),
        )
        clients.api_key = self._admin.add_key(GATEWAY)
        time.sleep(IN_FORCE_S)

    @property
    def _ports(self) -> list[int]:
        """Of the brokers that run."""
        return [broker.secure_port for broker in self._cluster.running]

    def _expect(self, found: list[bool], is_allowed: bool, what: str) -> None:
        if found != [is_allowed] * len(found):
            self.problems.append(f"{what}: {'allowed' if is_allowed else 'refused'} is right, and brokers say {found}")

    # Certificates

    def certificate(self) -> None:
        self._cluster.renew_certificate()
        time.sleep(_RELOADED_S)

    def authority(self) -> None:
        """Both are trusted, then the new one signs, then the old one is trusted no more; a kill in between."""
        clients, cluster = self._clients, self._cluster
        old, new = cluster.add_authority()
        before = clients.trusted
        time.sleep(_RELOADED_S)
        clients.trust(new + old)
        clients.restart()
        self._admin = Administration(clients.as_admin, cluster.store_file)
        cluster.renew_certificate()
        victim = self._random.choice(cluster.running)
        victim.kill()
        time.sleep(_RELOADED_S)
        victim.start()
        cluster.trust_only(new)
        time.sleep(_RELOADED_S)
        self._expect([trusts(port, str(before)) for port in self._ports], False, "a client of the old authority")
        self._expect([trusts(port, str(clients.trusted)) for port in self._ports], True, "a client of both authorities")
        # Clients trust both until the next time.

    # Secrets

    def password_of_app(self) -> None:
        self._change_password(APP, self._clients.app)

    def password_of_audit(self) -> None:
        self._change_password(AUDIT, self._clients.audit)

    def _change_password(self, user: str, client: Writer | Reader) -> None:
        clients = self._clients
        clients.errors.password_changes(user)
        clients.passwords[user] = self._admin.set_password(user)
        client.use_password(clients.passwords[user])
        clients.errors.password_changes(user)
        time.sleep(IN_FORCE_S)

    def api_key(self) -> None:
        """Add, use, remove. Streams with the removed key end at every broker."""
        clients, old = self._clients, self._clients.api_key
        clients.api_key = self._admin.add_key(GATEWAY)
        time.sleep(IN_FORCE_S)
        clients.gateway.use_key(clients.api_key)
        ports = [broker.http_port for broker in self._cluster.running]
        lasted_s = seconds_until_streams_end(
            ports, str(clients.trusted), old, POSTS, lambda: self._admin.remove_key(old)
        )
        if max(lasted_s) > _STREAM_ENDS_S:
            self.problems.append(f"streams outlive their API key: {[round(one, 1) for one in lasted_s]} s")

    def keys_of_tokens(self) -> None:
        """Publish, then sign, and remove the old key when its tokens have ended: as providers do."""
        provider, of_old_key = self._provider, self._provider.signer()
        provider.publish_another()
        time.sleep(2 * REFRESH_MS / 1000)
        self._expect(self._let_in(of_old_key), True, "a token of the old key, which is still published")
        provider.sign_with_the_last()
        time.sleep(LIFE_S)
        provider.remove_others()
        time.sleep(2 * REFRESH_MS / 1000)
        self._expect(self._let_in(of_old_key), False, "a token of a key that was removed")
        self._expect(self._let_in(provider.signer()), True, "a token of the new key")

    def _let_in(self, sign: Callable[[str], tuple[str, float]]) -> list[bool]:
        return [is_let_in(self._clients.with_token(sign(ROBOT)[0]), port) for port in self._ports]

    # ACLs

    def rules(self) -> None:
        """The right of `app` rests on another rule; there is no moment without one."""
        before, self._is_by_prefix = self._is_by_prefix, not self._is_by_prefix
        self._admin.allow(self._rule_of_app(is_prefix=self._is_by_prefix))
        time.sleep(IN_FORCE_S)
        self._admin.revoke(self._rule_of_app(is_prefix=before))

    @staticmethod
    def _rule_of_app(*, is_prefix: bool) -> Any:
        return write(APP, ORDERS[:3] if is_prefix else ORDERS, is_prefix=is_prefix)

    def guest(self) -> None:
        """Grant and revoke: every running broker obeys within a second."""
        settings = self._clients.of_user(GUEST)
        for is_allowed in (True, False):
            (self._admin.allow if is_allowed else self._admin.revoke)(read(GUEST, ORDERS))
            time.sleep(IN_FORCE_S)
            found = may_read(settings, ORDERS, self._ports)
            self._expect(found, is_allowed, f"{IN_FORCE_S} s after a change, {GUEST} reads {ORDERS}")
