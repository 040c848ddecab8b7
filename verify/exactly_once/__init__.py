"""The exactly-once copy: records are copied in transactions while copier and broker are killed with -9.

    python -m verify.exactly_once                      100,000 records in transactions of 750
    python -m verify.exactly_once --records 5000 --batch 75 --seed 7

- `copier`     a process that consumes, produces and commits offsets in one transaction, again and again
- `conductor`  fills the source, kills at drawn moments, starts again, and counts what came out

Every record must be in the sink exactly once for a reader with `read_committed`.
"""
