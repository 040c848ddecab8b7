"""Exactly-once copy: a program copies records in transactions while it and the broker are killed with -9.

    python -m verify.exactly_once                      100,000 records in transactions of 750
    python -m verify.exactly_once --records 5000 --batch 75 --seed 7

- `copier`     a process that consumes, produces and commits offsets in one transaction, again and again
- `conductor`  fills the source, kills at random times, restarts, and counts the records of the sink

Every record must be in the sink exactly once for a consumer with `read_committed`.
"""
