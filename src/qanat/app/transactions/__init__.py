"""`qanat transaction`: transactions and how to end one that hangs, a module per command.

- `list`              the transactional ids of every broker
- `describe`          transactions, or the producers of a partition
- `abort`             end an open transaction, or a hanging one (KIP-664)
- `transaction_view`  a transaction as its coordinator describes it
- `producers`         producers of a partition as its leader describes them
"""
