"""Event-loop stalls: how long the largest requests and responses of every API keep other requests waiting.

    python -m bench.stalls                     the table
    python -m bench.stalls --only Fetch        some APIs

- `__main__`   the command line and the table
- `crowd`      a broker with very many partitions, groups, members and offsets
- `requests`   the largest requests, and those with the largest answers: `of_records`, `of_bytes`,
               `of_transactions`, `of_groups`, `of_consumers`, `of_topics`
- `cases`      a request by the number of its rows
- `probed`     a broker in a process of its own, with a probe on its loop

Rule 1: the probe is a timer on the broker's own loop. The time by which it is late is a stall.
Rule 2: there are two figures: the wall clock, which also counts other load of the machine, and the CPU time of the
        loop's thread, which does not.
"""
