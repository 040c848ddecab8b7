"""`python -m qanat.app.bench.clients.worker`: a process with some clients, each in a thread.

The first line of its input has its tasks. It reports that it is ready, waits for "go", reports its progress, and at the
end its outcome. "stop", or the end of its input, ends it early.
"""

from __future__ import annotations

import signal
import sys
import threading
import time

import msgspec
from confluent_kafka import KafkaException

from qanat.app.bench.clients.consuming_client import ConsumingClient
from qanat.app.bench.clients.producing_client import ProducingClient
from qanat.app.bench.clients.worker_messages import (
    GO,
    STOP,
    Failed,
    Outcome,
    ProduceTask,
    Progress,
    Ready,
    WorkerMessage,
    WorkerTasks,
    librdkafka_reason,
)

Client = ProducingClient | ConsumingClient

_REPORT_EVERY_S = 0.2
_SWITCH_S = 0.0005
"""How long a thread may hold the interpreter while another waits: it adds to latencies."""


def main() -> int:
    # Ctrl-C at the terminal reaches every process; the parent decides when the workers stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.setswitchinterval(_SWITCH_S)
    worker_tasks = msgspec.json.decode(sys.stdin.readline(), type=WorkerTasks)
    stop = threading.Event()
    try:
        clients: list[Client] = [
            ProducingClient(task, stop) if isinstance(task, ProduceTask) else ConsumingClient(task, stop)
            for task in worker_tasks.tasks
        ]
        _together([threading.Thread(target=_prepared, args=(client, stop)) for client in clients])
    except (KafkaException, BufferError) as fault:
        send(Failed(librdkafka_reason(fault)))
        return 1
    if _FAULTS:
        send(Failed(librdkafka_reason(_FAULTS[0])))
        return 1
    send(Ready())
    if sys.stdin.readline().strip() != GO:
        return 0
    threading.Thread(target=_listen, args=(stop,), name="listener", daemon=True).start()
    for outcome in _outcomes(clients):
        send(outcome)
    return 0


_FAULTS: list[Exception] = []
"""Errors of clients that could not be prepared, from their threads."""


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
    """Run all clients; report their progress meanwhile."""
    outcomes: list[Outcome] = []

    def run(client: Client) -> None:
        outcomes.append(client.run())

    running = [threading.Thread(target=run, args=(client,)) for client in clients]
    for thread in running:
        thread.start()
    while any(thread.is_alive() for thread in running):
        running[0].join(_REPORT_EVERY_S) if running[0].is_alive() else time.sleep(_REPORT_EVERY_S)
        send(_sum([client.progress() for client in clients]))
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


def send(what: WorkerMessage) -> None:
    print(msgspec.json.encode(what).decode(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
