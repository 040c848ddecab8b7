"""What a broker keeps when it is killed or its machine loses power: shown with real clients under load.

    python -m verify.restart kill --seconds 60      kill -9 a real process again and again
    python -m verify.restart power --seconds 60     power cut at seeded moments of a whole node's life

- `ledger`           what clients were promised, and whether what is found keeps it
- `load`             producers with acks=all, a group that commits, somebody who makes topics
- `found`            what a broker has after its start, asked through the wire
- `kill`             a process, kill -9, the same data directory again
- `recorded_disk`    real files, and beside them what of it was synced
- `recorded_sqlite`  the same for SQLite, as a VFS
- `power`            a node on recorded files, the images that a power cut may leave, nodes on those

`kill -9` never loses the page cache; a power cut does. Hence the images: they hold what completed syncs have made
durable, and of the rest what a seed draws (`qanat.testing.simulation.crash_image`).
"""
