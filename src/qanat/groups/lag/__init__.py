"""Lag of groups: in records, in time, and whether it is a problem. Pure: time is an argument.

- `end_offsets`    the end offsets of one partition over time: when was a record appended?
- `commit_window`  the last commits of a group in one partition: is it stalled, stopped, falling behind?
- `history`        the lag of one group over a day, in bounded memory
- `lag_book`       all groups of one coordinator, one pass after another
- `reports`        what a pass found, as values that brokers exchange

Rule 1: each group has one coordinator, and only there its lag is computed (`broker.group_lag`).
Rule 2: memory has a bound that does not depend on how long a broker runs.
"""
