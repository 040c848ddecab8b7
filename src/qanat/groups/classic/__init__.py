"""Classic groups: members join, one of them assigns, everybody syncs.

- `states`       the five states and who may follow whom, as a table
- `group`        a live group and its members: bookkeeping without rules of conduct
- `rebalance`    from one generation to the next, and everything that can time out on the way
- `joining`      JoinGroup: new, pending, known and static members
- `membership`   SyncGroup, Heartbeat, LeaveGroup, and who is let in at all
- `view`         DescribeGroups and ListGroups
- `subscription` the one look inside the members' opaque bytes: which topics they read

Rule 1: durable is what `membership.write_metadata` wrote: the last generation that was
        assigned. A rebalance that a crash interrupts never happened; members rejoin.
Rule 2: a parked reply is delivered once, whatever becomes of its member
        (`rebalance.release`).
"""
