"""Bytes to values and back; nothing here reads a file, a socket or a clock.

Read in the data's order:

- `crc`           CRC-32C from whichever library is installed
- `crc_change`    the checksum of bytes whose beginning has changed, without the rest
- `batch_header`  the 61 bytes in front of every record batch: all the hot path ever looks at
- `copying`       copies that leave other threads their turns
- `compression`   gzip, snappy, lz4, zstd, with a bound that holds while inflating
- `records`       the records inside a batch, one value each (HTTP, tools, internal topics)
- `filtering`     keys, and a batch without some of its records (compaction)
- `columns`       the records of many batches as Arrow-shaped buffers, and back (Spark)
- `control`       transaction markers
- `staged`        files of batches that are named instead of sent
- `key_hash`      which partition a key has, as Java's client sees it
- `patterns`      regular expressions that clients send
- `kafka`         the messages of the protocol, generated from schemas; headers and frames

The core below them is the only native code: `growth`, `record_reader`, `column_reader`,
`record_writer`, `key_hash` and `crc_change` are Python with a `.pxd` of C types beside each.
They are compiled together or not at all, since most are built on each other.

Rule: no length that came from outside is trusted before it was compared with
the bytes that are really there.
"""
