"""The transaction coordinator: producer ids, transaction states, markers.

A pure ledger on `__transaction_state`; a partition's own view of open
transactions lives in `log.producers`. Nothing is here yet.
"""
