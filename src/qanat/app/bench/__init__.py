"""`qanat bench log`: the log's figures, each beside its physical limit on the same machine in the same run.

What measures brokers, here and elsewhere, is a room of its own: `broker`.

- `command`     the command line: what to measure, where, how it is told
- `figures`     a measured figure, what is required of it, and whether that is met
- `plan`        how much is measured: the full and the quick run
- `workspace`   the folder that the measurements fill, and its removal
- `batches`     the record batches that are written
- `bare`        what a program that does nothing else would reach: the limits
- `append` `commit` `reading` `lookup` `columns` `opening` `idle`   one figure each
- `prepared`    a data directory of many partitions, for the last two
- `child`       what must be measured in a process of its own
- `breakdown`   where the time of one append goes
- `machine`     what it was measured on
- `report` `page`   as a table, as JSON, as docs/performance-log.md

Rule 1: ours and the limit take turns within one run, on the same file system with
        the same bytes; the ratio is taken round by round and its median counts.
        A busy machine then slows both, and the ratio stays.
Rule 2: whatever is read is checksummed, on both sides: a slice alone touches no byte.
Rule 3: nothing is left behind, whatever ends the run.
"""
