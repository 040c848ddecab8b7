"""Durability across restarts: a broker under load is killed, or loses power, and must still have what it acknowledged.

    python -m verify.restart kill --seconds 60      kill -9 a real process again and again
    python -m verify.restart power --seconds 60     power cuts at seeded operations of a whole node

- `ledger`           acknowledged records, commits and topics, compared with a broker's contents
- `load`             producers with acks=all, a group that commits, a client that creates topics
- `readback`         the contents of a broker after its start, read over the wire
- `kill`             a process, kill -9, the same data directory again
- `recorded_disk`    real files, with a record of what was synced
- `recorded_sqlite`  the same for SQLite, as a VFS
- `power`            a node on recorded files, the images that a power cut may leave, nodes on those

`kill -9` never loses the page cache; a power cut does. Hence the images: they hold what completed syncs made durable,
and a seeded part of the rest (`qanat.testing.simulation.crash_image`).
"""
