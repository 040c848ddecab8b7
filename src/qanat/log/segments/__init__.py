"""One segment of a log: its files, their formats, and the damage found in them.

- `file_names`                    Kafka's file names in a partition's folder, and our own
- `batch_scan`                    reading bytes without trusting them: sound batches, damage
- `header_digest`                 a running digest of what batch checksums leave out: offsets, leader epochs
- `verification`                  all damage in a segment: bytes, offsets, leader epochs
- `aborted_index`, `indexes`      formats: aborted transactions; offset and time indexes
- `sidecar`                       what Kafka's files have no place for, once a segment is sealed
- `index_tables`                  look-up tables: in memory while a segment grows, in files once it is sealed
- `segment`                       one `.log` file with its tables and its sidecar (compiled)

Rule: nothing here knows a log. Callers pass in what they know of it (epochs, settings, bounds).
"""
