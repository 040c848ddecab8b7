"""Which member of a group reads which partitions, decided by the broker (KIP-848).

- `assignor` the port: what an assignor is told, and what it answers
- `uniform`  the same number for everybody, moving as little as possible
- `range`    the same numbers of every topic to the same member
- `built_in` these two by their names
- `simple`   for share groups: several members may work on one partition

Other packages may bring more (entry points `qanat.partition_assignors`).
"""
