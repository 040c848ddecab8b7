"""Replication of one partition: its in-sync set, its high watermark, leader epochs and fencing.

- `leader`     the leader's view: how far each follower is, what is committed, which replicas should be in sync
- `follower`   the follower's view: what to do with the leader's response
- `throttle`   how fast replicas may catch up

These are pure machines: the time is an argument. `log` holds the bytes, `connection` the connections, `broker` drives
both.

Rule 1: a record is committed when every member of the maximal in-sync set has it: the stored set and the set that is
        being stored together, since either may turn out to hold (C09).
Rule 2: nothing is committed while fewer than `min.insync.replicas` are in sync (C12).
Rule 3: a follower truncates its log by leader epochs, never by the high watermark (C01).
"""
