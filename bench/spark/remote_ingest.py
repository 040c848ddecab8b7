"""Exactly once on brokers of other machines: rows through the driver, against uploads by the executors.

python -m bench.spark.remote_ingest [PAIRS] [RECORDS]     (Linux, as root)

Two brokers, two executors and a driver, each in a network namespace with 1 Gbit/s in each direction. Executors and
driver run the sink's own code without Spark, so that nothing else is measured. Staged files for the driver are on a
disk that all share, without a network: real ones are slower. Pairs alternate; the medians of both are printed.
"""

from __future__ import annotations

import json
import pickle
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.spark.sides import EngineFailedError
from qanat.app.bench import report
from qanat.app.bench.figures import Limit, Required, row
from qanat.app.bench.machine import describe
from qanat.app.bench.report import Result

RATE = "1gbit"
BROKERS, EXECUTORS = ("b1", "b2"), ("e1", "e2")
MACHINES = (*BROKERS, *EXECUTORS, "d")
BRIDGE = "qanat-bench"
PORT = 9092
PARTITIONS = 4
SIZE = 100
_LITTLE = Required("ours", "<=", 0.05)


def address(machine: str) -> str:
    return f"10.97.0.{MACHINES.index(machine) + 1}"


def run(*words: str) -> None:
    subprocess.run(words, check=True)


@contextmanager
def network() -> Iterator[None]:
    """A switch, and a cable to each machine."""
    with ExitStack() as stack:
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        stack.callback(run, "ip", "link", "del", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        for machine in MACHINES:
            space, inside, outside = f"qanat-{machine}", f"q{machine}-in", f"q{machine}-out"
            run("ip", "netns", "add", space)
            stack.callback(run, "ip", "netns", "del", space)
            run("ip", "link", "add", outside, "type", "veth", "peer", "name", inside, "netns", space)
            run("ip", "link", "set", outside, "master", BRIDGE, "up")
            run("ip", "-n", space, "link", "set", "lo", "up")
            run("ip", "-n", space, "link", "set", inside, "up")
            run("ip", "-n", space, "addr", "add", f"{address(machine)}/24", "dev", inside)
            limit = ("root", "tbf", "rate", RATE, "burst", "512kb", "latency", "50ms")
            run("tc", "qdisc", "add", "dev", outside, *limit)
            run("tc", "-n", space, "qdisc", "add", "dev", inside, *limit)
        yield


@contextmanager
def on(machine: str, *words: str, **options: object) -> Iterator[subprocess.Popen[str]]:
    """A process of a machine, ended at the end."""
    command = ["ip", "netns", "exec", f"qanat-{machine}", sys.executable, *words]
    process: subprocess.Popen[str] = subprocess.Popen(command, text=True, **options)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def answer_of(process: subprocess.Popen[str]) -> dict[str, float]:
    said, _ = process.communicate()
    if process.returncode:
        raise EngineFailedError(f"a process of the measurement failed: {said}")
    found: dict[str, float] = json.loads(said.splitlines()[-1])
    return found


def started(data: str, stack: ExitStack) -> None:
    settings: dict[str, object] = {"num.partitions": PARTITIONS, "http.port": -1, "inter.broker.port": 9093}
    settings |= {"allow.unauthenticated.clients": "true"}
    for number, machine in enumerate(BROKERS):
        words = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
        words += ["--host", address(machine), "--port", str(PORT), "--node-id", str(number), "--data-dir", data]
        stack.enter_context(on(machine, "-m", "qanat.app", "start", *words, stderr=subprocess.DEVNULL))
        for _ in range(600):
            with on(machine, "-c", _PROBE % (address(machine), PORT), stderr=subprocess.DEVNULL) as probe:
                if probe.wait() == 0:
                    break
            time.sleep(0.1)


_PROBE = "import socket; socket.create_connection((%r, %d), 1)"


def measured(folder: Path, topic: str, records: int, *, is_remote: bool) -> dict[str, float]:
    bootstrap = f"{address('b1')}:{PORT}"
    with ExitStack() as stack:
        tasks = []
        for number, machine in enumerate(EXECUTORS):
            words = ("task", bootstrap, topic, str(records // len(EXECUTORS)), str(is_remote), str(folder), str(number))
            process = on(machine, "-m", "bench.spark.remote_ingest", *words, stdout=subprocess.PIPE)
            tasks.append(stack.enter_context(process))
        staged = [answer_of(task) for task in tasks]
    committing = ("commit", bootstrap, topic, str(folder), str(len(EXECUTORS)))
    with on("d", "-m", "bench.spark.remote_ingest", *committing, stdout=subprocess.PIPE) as driver:
        said = answer_of(driver)
    size = sum(one["bytes"] for one in staged)
    staging_s = max(one["seconds"] for one in staged)
    return {
        "MB": size / 1e6,
        "MB/s": size / (staging_s + said["seconds"]) / 1e6,
        "staging s": staging_s,
        "commit s": said["seconds"],
        "driver's CPU s": said["cpu"],
        "driver's MB": said["sent"] / 1e6,
        "executors' CPU s": sum(one["cpu"] for one in staged),
    }


def task(bootstrap: str, topic: str, records: int, is_remote: bool, folder: str, number: int) -> None:
    """What an executor does."""
    import pyarrow as pa  # type: ignore[import-untyped]

    from qanat.spark.options.options import Access
    from qanat.spark.sink.batch_sender import Sender
    from qanat.spark.sink.outgoing_columns import Target
    from qanat.spark.sink.remote_ingest import RemoteIngest
    from qanat.spark.sink.row_batches import Encoder
    from qanat.spark.sink.row_staging import RowStaging
    from qanat.spark.sink.staging import Staged, StageWriter, Staging
    from qanat.wire.compression import Codec

    rows = pa.RecordBatch.from_arrays([pa.array([b"x" * SIZE] * 10_000, pa.binary())], ["value"])
    encoder = Encoder(Target(topic, Codec.NONE, 1_000_000, has_headers=False))
    with Sender(Access(bootstrap)) as sender:

        async def staged() -> Staged:
            with StageWriter(Staging(folder), "batch-0") as writer:
                staging = RowStaging(writer, None, RemoteIngest(sender.cluster, topic) if is_remote else None)
                for _ in range(records // 10_000):
                    for batch in encoder.encode(rows):
                        await staging.add(batch)
                return await staging.close()

        sender.run(sender.prepare(encoder, rows))
        before, began = time.process_time(), time.perf_counter()
        found = sender.run(staged())
        took, cpu = time.perf_counter() - began, time.process_time() - before
    (Path(folder) / f"task-{number}").write_bytes(pickle.dumps(found))
    size = sum(entry.size for entry in found.entries) + sum(one.size for one in found.remote_files)
    print(json.dumps({"bytes": size, "seconds": took, "cpu": cpu}))


def commit(bootstrap: str, topic: str, folder: str, tasks: int) -> None:
    """What the driver does."""
    from qanat.spark.options.options import Access
    from qanat.spark.sink import exactly_once
    from qanat.spark.sink.batch_sender import Sender
    from qanat.spark.sink.staging import Staging

    senders: list[Sender] = []

    class Counted(Sender):
        def __enter__(self) -> Sender:
            senders.append(self)
            return super().__enter__()

    vars(exactly_once)["Sender"] = Counted
    waiting = [pickle.loads((Path(folder) / f"task-{number}").read_bytes()) for number in range(tasks)]
    staging = Staging(folder)
    before, began = time.process_time(), time.perf_counter()
    batches = (batch for one in waiting for batch in staging.take(one))
    assert exactly_once.commit_once(Access(bootstrap), topic, topic, 0, batches)
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - began,
                "cpu": time.process_time() - before,
                "sent": senders[0].sent_bytes,
            }
        )
    )


def measured_pairs(pairs: int = 5, records: int = 10_000_000) -> Result:
    """Rows a second of uploads beside those through the driver, and what the driver sends."""
    found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as scratch, network(), ExitStack() as stack:
        started(f"{scratch}/data", stack)
        warm = Path(scratch) / "warm"
        warm.mkdir()
        measured(warm, "warm", 40_000, is_remote=False)
        for number in range(pairs):
            for is_remote in (number % 2 == 0, number % 2 != 0):
                folder = Path(scratch) / f"staging-{number}-{is_remote}"
                folder.mkdir()
                one = measured(folder, f"once-{number}-{is_remote}".lower(), records, is_remote=is_remote)
                found[is_remote].append(one)
                shutil.rmtree(folder)
                said = {k: round(v, 4) for k, v in one.items()}
                print("uploads" if is_remote else "driver ", said, file=sys.stderr, flush=True)
        about = describe(Path(scratch))
    sent = [one["driver's MB"] / one["MB"] for one in found[True]]
    rates = [[one["MB/s"] for one in found[is_remote]] for is_remote in (True, False)]
    rows = [
        row("spark-driver", "driver's bytes per byte, exactly once elsewhere", "", sent, None, _LITTLE),
        row(
            "spark-upload", "exactly once elsewhere, 1 Gbit/s", "MB/s", rates[0], Limit(rates[1], "through the driver")
        ),
    ]
    settings = {"uploads": f"{records:,} records of {SIZE} B from {len(EXECUTORS)} executors; {pairs} pairs, by turns"}
    for is_remote, those in found.items():
        medians = {name: round(statistics.median(one[name] for one in those), 4) for name in those[0]}
        settings["uploads, medians" if is_remote else "through the driver, medians"] = str(medians)
    return Result(about, settings, rows, [], [])


def main(pairs: int = 5, records: int = 10_000_000) -> None:
    try:
        result = measured_pairs(pairs, records)
    except EngineFailedError as fault:
        raise SystemExit(f"bench.spark.remote_ingest: {fault}") from None
    report.print_table(result)
    for name, value in result.settings.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["task", bootstrap, topic, records, is_remote, folder, number]:
            task(bootstrap, topic, int(records), is_remote == "True", folder, int(number))
        case ["commit", bootstrap, topic, folder, tasks]:
            commit(bootstrap, topic, folder, int(tasks))
        case numbers:
            main(*map(int, numbers))
