"""Power cuts of a whole node: store, logs, groups. Crash images are taken under load, and nodes are started on them.

The node runs on recorded files (`recorded_disk`), its metadata store on a recorded SQLite. Before every change of the
disk a seed decides whether to take an image there, and which kind: `drop_all` leaves exactly what completed syncs made
durable; the others leave more, torn and out of order. The node runs on; each image is stored with the number of
acknowledgements by then. The first images are of a node's first start; it is shut down cleanly once, half-way, so that
there are images of a closed and of a reopened directory.

The times of the images depend on the threads: a seed gives the same kind of history again, not the same one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from qanat.adapters.os_files import OsFiles
from qanat.adapters.sqlite_catalogue import SqliteCatalogue
from qanat.adapters.sqlite_store import SqliteStore
from qanat.app.node.node import Node
from qanat.app.settings.loading import flag, load
from qanat.app.settings.node_settings import NodeSettings
from qanat.groups.replies import FetchReply
from qanat.groups.requests import FetchOffsets
from qanat.log.atomic_files import replace
from qanat.log.directories.catalogue import PartitionRow
from qanat.model.error_codes import ErrorCode
from qanat.testing.simulation.disk_faults import Act
from qanat.testing.stored import read_all
from verify.logs.crash_sweep import VARIANTS, crashed
from verify.restart.ledger import Contents, Ledger, Mark
from verify.restart.load import GROUP, TOPIC, Load, make_load_topic, wait_for_acknowledgements
from verify.restart.recorded_disk import RecordedDisk, RecordedFiles, content
from verify.restart.recorded_sqlite import RecordedVfs

_LOSSES = [variant for variant in VARIANTS if variant != "keep_all"]
_CUT_CHANCE = 0.1
_TIMEOUT_S = 120.0
_PHASES = 2
_PRODUCER_REST_S = 0.005
_CHECKED_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Image:
    """A data directory as the next start may find it, and the acknowledgements before."""

    name: str
    files: dict[str, bytes | None]
    mark: Mark


class RecordedCatalogue:
    """The catalogue is one file that is replaced: recorded after the replacement."""

    def __init__(self, directory: str, files: RecordedFiles) -> None:
        self._path = f"{directory}/catalogue.db"
        self._files = files
        self._real = SqliteCatalogue(self._path)

    def load(self, generation: str) -> Iterator[PartitionRow]:
        return self._real.load(generation)

    def save(self, generation: str, rows: Iterable[PartitionRow]) -> None:
        self._real.save(generation, rows)
        replace(self._files, self._path, Path(self._path).read_bytes())


class RecordedEngine:
    """The `file` engine, recorded."""

    def __init__(self, disk: RecordedDisk) -> None:
        self.files = RecordedFiles(disk, OsFiles())

    def catalogue(self, directory: str) -> RecordedCatalogue:
        return RecordedCatalogue(directory, self.files)


class Cutter:
    """Takes images of a recorded disk at random operations, until there are enough."""

    def __init__(self, disk: RecordedDisk, data_dir: str, ledger: Ledger, seed: int) -> None:
        self.images: list[Image] = []
        self.wanted = 0
        self._disk = disk
        self._data_dir = data_dir
        self._ledger = ledger
        self._random = Random(f"cuts {seed}")
        disk.shadow.before_change = self._consider

    def _consider(self, act: Act) -> None:
        if len(self.images) >= self.wanted or self._random.random() >= _CUT_CHANCE:
            return
        # The mark first: an acknowledgement during the image need not be in it.
        mark, loss = self._ledger.mark(), self._random.choice(_LOSSES)
        image = crashed(self._disk.shadow, loss)
        name = f"image {len(self.images)}, {loss} before {act}"
        self.images.append(Image(name, content(image, self._data_dir), mark))

    def wait(self) -> None:
        deadline = time.monotonic() + _TIMEOUT_S
        while len(self.images) < self.wanted:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(self.images)} images instead of {self.wanted} in {_TIMEOUT_S:.0f} s")
            time.sleep(0.02)


class NodeThread:
    """A node on recorded files, on a loop and a thread of its own."""

    def __init__(self, settings: NodeSettings, disk: RecordedDisk) -> None:
        self._settings = settings
        self._disk = disk
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._started = threading.Event()
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="recorded-node", daemon=True)
        self.address = ""

    def __enter__(self) -> NodeThread:
        self._thread.start()
        self._started.wait(_TIMEOUT_S)
        if self._fault is not None:
            raise self._fault
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(_TIMEOUT_S)
        self._loop.close()
        if self._fault is not None:
            raise self._fault

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as fault:  # noqa: BLE001 - entering and leaving the context raise it
            self._fault = fault
        finally:
            self._started.set()

    async def _serve(self) -> None:
        vfs = RecordedVfs(self._disk, f"recorded-{id(self)}")
        try:
            store = await SqliteStore.open(f"{self._settings.data_dir}/metadata.db", vfs=vfs.name)
            try:
                async with Node(self._settings, store=store, engine=RecordedEngine(self._disk)) as node:
                    self.address = node.address
                    self._started.set()
                    await self._over.wait()
            finally:
                await store.close()
        finally:
            vfs.close()


def cut_images(folder: Path, images: int, seed: int, **given: str) -> tuple[Ledger, list[Image]]:
    """Run a node under load and take so many images of it. `given` are further settings, with `_` for `.`."""
    data_dir = str(folder / "data")
    disk, ledger = RecordedDisk(seed), Ledger()
    RecordedFiles(disk, OsFiles()).make_directory(data_dir)
    cutter = Cutter(disk, data_dir, ledger, seed)
    for phase in range(_PHASES):
        before, after = images * phase // _PHASES, images * (phase + 1) // _PHASES
        cutter.wanted = max(len(cutter.images), (before + after) // 2)
        with NodeThread(_settings(data_dir, given), disk) as node:
            if phase == 0:
                make_load_topic(node.address, ledger)
            with Load(node.address, ledger, seed * _PHASES + phase, pause_s=_PRODUCER_REST_S):
                cutter.wait()
                wait_for_acknowledgements(ledger, records=1, commits=1)  # So that later images can lose something.
                cutter.wanted = after
                cutter.wait()
            cutter.wanted += 1  # One during the shutdown.
    return ledger, cutter.images


def check_images(images: list[Image], ledger: Ledger) -> list[str]:
    """Start nodes on all images, a few at once because they mostly wait for the disk; returns all problems."""
    return asyncio.run(_check_images(images, ledger))


async def _check_images(images: list[Image], ledger: Ledger) -> list[str]:
    problems, left = list[str](), iter(images)

    async def check_from_left() -> None:
        for image in left:
            with TemporaryDirectory(prefix="qanat-image-") as folder:
                problems.extend(await _problems_of(image, ledger, Path(folder)))

    await asyncio.gather(*(check_from_left() for _ in range(_CHECKED_AT_ONCE)))
    return problems


async def _problems_of(image: Image, ledger: Ledger, folder: Path) -> list[str]:
    """Write an image to a folder, start a node on it, and compare it with the ledger."""
    for name, held in image.files.items():
        if held is None:
            (folder / name).mkdir(parents=True)
        else:
            (folder / name).write_bytes(held)
    async with Node(_settings(str(folder), {})) as node:
        problems = [f"{at} is offline: {fault}" for at, fault in node.directory.offline.items()]
        problems += [f"{at} is damaged: {log.damage}" for at, log in node.directory.logs.items() if log.damage]
        problems += ledger.problems(await _contents(node), image.mark)
    return [f"{image.name}: {problem}" for problem in problems]


async def _contents(node: Node) -> Contents:
    broker = node.broker
    found = Contents(topics=list(broker.metadata.image.topics))
    for partition in broker.partitions:
        if partition.topic == TOPIC:
            found.records[TOPIC, partition.partition] = []
    for record in await read_all(broker, TOPIC):
        found.records[TOPIC, record.partition].append((record.offset, record.value or b""))
    async with asyncio.timeout(_TIMEOUT_S):
        reply = await broker.groups.ask(GROUP, FetchOffsets(GROUP))
        while isinstance(reply, FetchReply) and reply.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            await asyncio.sleep(0.02)
            reply = await broker.groups.ask(GROUP, FetchOffsets(GROUP))
    assert isinstance(reply, FetchReply)
    assert reply.error is ErrorCode.NONE, reply.error
    for one in reply.offsets:
        found.commits[GROUP, one.topic, one.partition] = one.offset
    return found


def _settings(data_dir: str, given: dict[str, str]) -> NodeSettings:
    settings = {
        "data.dir": data_dir,
        "port": 0,
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 2,
        **{name.replace("_", "."): value for name, value in given.items()},
    }
    return load([flag(name, value, name) for name, value in settings.items()], None, {}).settings
