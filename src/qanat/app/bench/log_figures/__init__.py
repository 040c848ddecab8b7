"""The figures of `qanat bench log`: the log beside the physical limits of the same machine, in the same run.

- `plan`                how much is measured: the full and the quick run
- `batches`             the record batches that are written
- `bare_loops`          the limits: what a program reaches that only moves the bytes
- `append` `commit` `read` `lookup` `columns` `opening` `memory`   one figure each
- `breakdown`           where the time of one append goes
- `prepared_directory`  a data directory of many partitions, for `opening` and `memory`
- `child_process` `child_main`   measurements in a fresh process
- `markdown_page`       docs/performance-log.md

Rule 1: ours and the limit alternate within one run, on the same file system with the same bytes. The ratio is taken
        round by round, and its median counts: a busy machine slows both, and the ratio stays.
Rule 2: both sides checksum everything that they read: a slice alone touches no byte.
"""
