"""Bytes to values and back; nothing here reads a file, a socket or a clock.

Read in the data's order:

- `crc`          CRC-32C from whichever library is installed
- `batch_header` the 61 bytes in front of every record batch: all the hot path ever looks at
- `compression`  gzip, snappy, lz4, zstd, with a bound that holds while inflating
- `records`      the records inside a batch, one value each (compaction, HTTP, tools)
- `columns`      the records of many batches as Arrow-shaped buffers (Spark)
- `control`      transaction markers

Rule: no length that came from outside is trusted before it was compared with
the bytes that are really there.
"""
