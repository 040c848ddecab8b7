"""How long one request keeps everybody else waiting: the largest requests and the largest answers of every API.

    python -m bench.holds                     the table
    python -m bench.holds --only Fetch        some APIs

- `__main__`   the command line and the table
- `crowd`      a broker with very many partitions, groups, members and offsets
- `requests`   the largest requests, and those with the largest answers: `of_records`, `of_bytes`,
               `of_transactions`, `of_groups`, `of_consumers`, `of_topics`
- `cases`      a request by the number of its rows
- `probed`     a broker in a process of its own, with a probe on its loop

Rule 1: the probe is a timer on the broker's own loop. What it cannot be called for is a hold.
Rule 2: two figures are kept: the wall clock, which also counts what the rest of the machine takes, and
        the CPU time of the loop's thread, which does not.
"""
