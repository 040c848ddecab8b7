"""Rotation under load: everything that `changes` knows is changed, and brokers are killed in between."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from random import Random

from verify.security_fire.brokers import FireCluster
from verify.security_fire.changes import Changes
from verify.security_fire.client_set import ClientSet
from verify.security_fire.clients import wait_for_progress
from verify.security_fire.identity_provider import IdentityProvider
from verify.security_fire.judgement import lost_records
from verify.security_fire.outcome import Outcome

_SESSION_MS = 15_000
"""Sessions end, so that open connections log in again during a run."""


class Rotation:
    """One round: each change once, in an order of the seed's own."""

    def __init__(self, folder: Path, seed: int, store: str) -> None:
        self._random = Random(seed)
        self._cluster = FireCluster(folder / "rotation", store)
        self._provider = IdentityProvider()
        self._clients = ClientSet(folder, self._cluster, self._provider)
        self._changes = Changes(self._cluster, self._clients, self._provider, self._random)
        self._done = Counter[str]()

    def run(self) -> Outcome:
        began = time.monotonic()
        cluster, clients, problems = self._cluster, self._clients, self._changes.problems
        try:
            with self._provider:
                self._start()
                clients.start()
                self._turn()
                clients.finish()
                for topic, ledger in clients.ledgers.items():
                    problems += lost_records(topic, ledger, clients.as_admin)
        finally:
            cluster.kill()
        problems += [*clients.errors.faults, *cluster.problems()]
        records = sum(map(len, clients.ledgers.values()))
        return Outcome("rotation", records, self._done, clients.errors, problems, time.monotonic() - began)

    def _start(self) -> None:
        cluster = self._cluster
        settings = cluster.secure_settings()
        settings["sasl.enabled.mechanisms"] += ",OAUTHBEARER"
        settings["connections.max.reauth.ms"] = str(_SESSION_MS)
        cluster.set_all({**settings, **self._provider.settings}, is_open=False, is_secure=True)
        cluster.start()
        self._changes.prepare()

    def _turn(self) -> None:
        """Make every change, and kill a broker before or after each."""
        changes = self._changes.all
        self._random.shuffle(changes)
        for change in changes:
            broker = self._random.choice(self._cluster.brokers)
            is_killed_before = self._random.random() < 0.5
            if is_killed_before:
                broker.kill()
            change()
            self._done[change.__name__.replace("_", " ")] += 1
            if not is_killed_before:
                broker.kill()
            self._done["kill -9"] += 1
            broker.start()
            wait_for_progress(self._clients.ledgers.values())
