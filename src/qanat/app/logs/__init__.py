"""`qanat log`: read data directories on disk.

- `verify`           `qanat log verify`: read every byte, find damage
- `dump`             `qanat log dump`: batches or records of one segment
- `segment_files`    the `.log` files of a path
- `stored_segments`  a segment on disk: its size, its damage, its gaps

Rule: these commands only read. They take no lock and recover nothing.
"""
