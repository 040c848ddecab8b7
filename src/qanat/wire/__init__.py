"""Bytes to values and back; nothing here reads a file, a socket or a clock.

Read in the data's order:

- `crc`           CRC-32C from the installed library
- `crc_change`    the checksum of bytes whose beginning has changed, without reading the rest
- `batch_header`  the 61 bytes in front of every record batch: all that the hot path reads
- `placing`       base offset and leader epoch, written into a batch
- `copying`       large copies that let other threads run
- `compression`   gzip, snappy, lz4, zstd, with a limit that holds while decompressing
- `records`       the records of a batch, one value each (HTTP, tools, internal topics)
- `batch_builder` a batch that grows record by record (the Python client)
- `filtering`     keys, and a batch without some of its records (compaction)
- `column_layout` columns of records in Arrow's layout
- `columns`       the records of many batches as such columns, and back (Spark)
- `control`       transaction markers
- `staged`        files of batches that are named instead of sent
- `staged_upload` chunks of such files, for a broker on another machine
- `key_hash`      the partition of a key, as Java's client computes it
- `frames`        Kafka's framing; `frame_buffers` provides the buffers
- `kafka`         the messages of the protocol, generated from schemas; headers
- `push`          the frames of the push protocol and their payloads

The core below them is the only native code: `growth`, `record_reader`, `column_reader`,
`record_writer`, `batch_builder`, `key_hash` and `crc_change` are Python with a `.pxd` of C types beside each.
They are compiled together or not at all, since most build on each other.

Rule: no length from outside is trusted before it is compared with
the bytes that are there.
"""
