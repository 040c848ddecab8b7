"""A seeded simulation for tests of your own code: a disk, an event loop and a network. One seed, one history.

- `disk`          `SimDisk`: a file system that can lose power, lie, fill up and rot
- `disk_faults`   `DiskFaults`, `PowerLoss`: the faults of a disk
- `disk_nodes`    its files and folders, as the process sees them and as they are durable
- `crash_image`   what a power loss leaves of them
- `loop`          `SimLoop`: an asyncio event loop whose clock jumps to the next timer; machines that pause or die
- `network`       `SimNetwork`: connections with delays, resets and partitions, for `asyncio` streams and protocols
- `links`         `SimLink`: one direction of a path with a rate, a delay and loss

A disk loses at a power loss what was not synced, file names included:

>>> from qanat.testing.simulation.disk import SimDisk
>>> disk = SimDisk(seed=7)
>>> disk.make_directory("/data")
>>> journal = disk.open("/data/journal", create=True)
>>> journal.write([b"paid"], 0)
4
>>> journal.sync()
>>> disk.sync_directory("/data")
>>> journal.write([b" twice"], 4)
6
>>> bytes(disk.crash("drop_all").open("/data/journal").read(0, 100))
b'paid'

A day passes in no time, and no thread runs:

>>> import asyncio
>>> from qanat.testing.simulation.loop import SimLoop
>>> loop = SimLoop(seed=7)
>>> loop.run_until_complete(asyncio.sleep(86_400, "morning"))
'morning'
>>> loop.time()
86400.0
>>> loop.close()

`docs/testing/index.md` shows a partition of the network. Qanat's own simulation (`verify`) runs whole clusters on
these parts.

Rule 1: everything random comes from the seed, so that a failing test repeats itself.
Rule 2: a machine that was killed runs nothing any more, not even its clean-up code.
"""
