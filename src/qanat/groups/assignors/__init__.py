"""Server-side partition assignors (KIP-848).

- `assignor` the port: members and topics in, an assignment out
- `uniform`  the same number for each member, with as few moves as possible
- `range`    the same numbers of every topic to the same member
- `built_in` these two by their names
- `simple`   for share groups: several members may read one partition

Other packages may bring more (entry points `qanat.partition_assignors`).
"""
