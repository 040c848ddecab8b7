"""A queue worked by eight share consumers of which some are killed, some frozen, and the broker too, if wanted.

    python -m verify.share_queue                      20,000 records, 30 kills
    python -m verify.share_queue --records 2000 --kills 8 --broker-kills 2 --seed 7

- `worker`     a process that takes records from the queue, works on them and says how it went, one by one
- `conductor`  fills the queue, kills and freezes workers at drawn moments, and starts new ones
- `judgement`  what the workers' journals and the dead-letter topic must and must not show

Most records are accepted. One in fifty cannot be done and is handed back every time: after its last attempt it must
be a dead letter. One in fifty is rejected: it must be a dead letter at once.
"""
