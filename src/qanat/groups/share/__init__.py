"""Share groups (KIP-932): members that work on the same partitions together, record by record.

- `standing`     how far a group is in a partition: what is asked of the partitions' own ledger
"""
