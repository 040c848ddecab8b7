"""Mutated requests, by a seed: nothing but refusals, no client kept waiting, no memory lost.

make fuzz SECONDS=600           a longer run with a new seed
make fuzz SECONDS=60 SEEDS=7    the run of one seed again
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from random import SystemRandom

from tests.servers.mutations import Mutator
from tests.servers.victim import Victim, ending

SECONDS = float(os.environ.get("QANAT_FUZZ_SECONDS", "4"))
FEWEST_PER_S = 100
"""Frames for each second of a run; a busy machine takes longer for them."""
GROWTH_BYTES = 50 * 1024 * 1024
_LONGEST_BURST = 8


def chosen_seed() -> int:
    given = os.environ.get("QANAT_FUZZ_SEED")
    if given is None:
        return 1
    return int(given) if given else SystemRandom().randrange(1 << 32)


def test_mutated_requests_are_refused_or_answered_and_hurt_no_client(tmp_path: Path) -> None:
    seed = chosen_seed()
    mutator = Mutator(seed)
    # Topics that mutated requests manage to create are legal, but their memory is not what is measured here.
    victim = Victim(tmp_path, "auto.create.topics.enable=false")
    replay = f"again: make fuzz SECONDS={SECONDS:.0f} SEEDS={seed}"
    try:
        _attack(victim, mutator, 1.0)
        before = victim.rss_bytes
        with victim.watched(replay=replay) as waits:
            sent = _attack(victim, mutator, SECONDS)
        growth = victim.rss_bytes - before
        longest_ms = max(waits).seconds * 1000
        summary = f"{sent} frames, longest wait {longest_ms:.0f} ms, {growth / 2**20:.1f} MiB more; {replay}"
        assert victim.bugs() == [], summary
        assert victim.is_alive(), summary
        assert growth < GROWTH_BYTES, summary
    finally:
        victim.close()


def _attack(victim: Victim, mutator: Mutator, seconds: float) -> int:
    """Connections with some frames each; returns how many frames were sent."""
    sent = 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline or sent < FEWEST_PER_S * seconds:
        burst = [mutator.draw() for _ in range(1 + mutator.number(_LONGEST_BURST))]
        with victim.connect() as client, contextlib.suppress(ConnectionError):
            client.sendall(b"".join(burst))
            if mutator.number(2):
                ending(client, 0.002)
        sent += len(burst)
    return sent
