"""`python -m qanat.app.bench.broker.worker`: a process with some clients in it, each a thread.

Told what to do by the first line of its input; says that it is ready, waits for "go", says how far it is, and in the
end what came of it. "stop", or the end of its input, ends it with what there is.
"""

from __future__ import annotations

import signal
import sys
import threading
import time

import msgspec
from confluent_kafka import KafkaException

from qanat.app.bench.broker.consuming import ConsumingClient
from qanat.app.bench.broker.producing import ProducingClient
from qanat.app.bench.broker.tasks import GO, STOP, Crewed, Failed, Outcome, ProduceTask, Progress, Ready, Told, refusal

Client = ProducingClient | ConsumingClient

_TELL_EVERY_S = 0.2
_SWITCH_S = 0.0005
"""How long a thread may keep the interpreter while another has something to do: a latency waits for it."""


def main() -> int:
    # The terminal's Ctrl-C reaches everybody; what becomes of it is the parent's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.setswitchinterval(_SWITCH_S)
    crewed = msgspec.json.decode(sys.stdin.readline(), type=Crewed)
    stop = threading.Event()
    try:
        clients: list[Client] = [
            ProducingClient(task, stop) if isinstance(task, ProduceTask) else ConsumingClient(task, stop)
            for task in crewed.tasks
        ]
        _together([threading.Thread(target=_prepared, args=(client, stop)) for client in clients])
    except (KafkaException, BufferError) as fault:
        tell(Failed(refusal(fault)))
        return 1
    if _FAULTS:
        tell(Failed(refusal(_FAULTS[0])))
        return 1
    tell(Ready())
    if sys.stdin.readline().strip() != GO:
        return 0
    threading.Thread(target=_listen, args=(stop,), name="listener", daemon=True).start()
    for outcome in _outcomes(clients):
        tell(outcome)
    return 0


_FAULTS: list[Exception] = []
"""Why a client could not be prepared, by the thread that tried."""


def _prepared(client: Client, stop: threading.Event) -> None:
    try:
        client.prepare()
    except KafkaException as fault:
        _FAULTS.append(fault)
        stop.set()


def _together(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _outcomes(clients: list[Client]) -> list[Outcome]:
    """Run them all; say meanwhile how far they are."""
    outcomes: list[Outcome] = []

    def run(client: Client) -> None:
        outcomes.append(client.run())

    running = [threading.Thread(target=run, args=(client,)) for client in clients]
    for thread in running:
        thread.start()
    while any(thread.is_alive() for thread in running):
        running[0].join(_TELL_EVERY_S) if running[0].is_alive() else time.sleep(_TELL_EVERY_S)
        tell(_sum([client.progress() for client in clients]))
    return outcomes


def _sum(parts: list[Progress]) -> Progress:
    return Progress(
        sum(part.records for part in parts), sum(part.size_bytes for part in parts), sum(part.errors for part in parts)
    )


def _listen(stop: threading.Event) -> None:
    for line in sys.stdin:
        if line.strip() == STOP:
            break
    stop.set()


def tell(what: Told) -> None:
    print(msgspec.json.encode(what).decode(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
