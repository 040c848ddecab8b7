"""A queue with eight share consumers, of which some are killed and some frozen; optionally the broker is killed too.

    python -m verify.share_queue                      20,000 records, 30 kills
    python -m verify.share_queue --records 2000 --kills 8 --broker-kills 2 --seed 7

- `worker`     a process that consumes records of the queue and acknowledges each of them
- `conductor`  fills the queue, kills and freezes workers at random times, and starts new ones
- `judgement`  checks of the workers' journals and of the dead-letter topic

Most records are accepted. One in fifty is released every time: after its last attempt it must be a dead letter. One in
fifty is rejected: it must be a dead letter at once.
"""
