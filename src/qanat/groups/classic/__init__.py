"""Classic groups: members join, one of them assigns, all sync.

- `states`       the five states and their transitions, as a table
- `group`        a live group and its members: bookkeeping without rules
- `rebalance`    from one generation to the next, with all its timeouts
- `joining`      JoinGroup: new, pending, known and static members
- `membership`   SyncGroup, LeaveGroup, and the checks of members
- `sessions`     Heartbeat, and the end of a session
- `view`         DescribeGroups and ListGroups
- `subscription` reads the topics in the members' opaque bytes

Rule 1: durable is what `membership.write_metadata` wrote: the last generation that was
        assigned. A rebalance that a crash interrupts never happened; members rejoin.
Rule 2: a parked reply is delivered once, whatever happens to its member
        (`rebalance.release`).
"""
