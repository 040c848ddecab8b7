"""The edge: pure cores of what stands between a broker and the places where its records are used.

- `push_dialogue`  which frames a push client may send when, and how long either side may be silent
- `credit`         how much may be on its way to a subscriber
- `push_session`   a subscription in mode log or all: cursors, deliveries, cumulative acknowledgements, commits, resets
- `push_queue`     a subscription in mode queue: records that a client holds, and its verdicts
- `kept_records`   what a consumer application stores of what arrives: new records, each once
- `generations`    what it holds of a partition before and after a refresh, never mixed
- `refresh_ledger` the steps of a refresh, as the metadata store has them
- `refresh_turn`   a refresh at one subscriber: RESET, replay, READY
- `resume`         where a subscriber continues: its offset and epoch against the log

The tree of brokers, child below parent:

- `topology`       roles, parents, and which topology a node accepts
- `registry`       who may register, which place a node may be given; loops and duplicates are refused
- `node_state`     how a node does, as it tells its registry
- `mirror`         one mirrored partition: what to do with a parent's answer, gaps, truncations
- `parents`        which parent feeds a node, and when it returns to a better one; `health` of a pipe, `backoff` of both
- `key_filter`     which records of a topic a pipe carries, by their keys
- `pace`           how much a pipe asks for at once: priority classes, bandwidth
- `feeds`          messages of parents that are no Qanat brokers: the port of the plug-in group `qanat.pipes`
- `up_flow`        records on their way up: the outbox of the child, the mark of the parent

`servers.push` carries out what the push cores decide; `verify.push` simulates them with seeded kills of broker and
consumer. `verify.edge` simulates a tree over links that fail.

Rule: like every core, no clock, no randomness, no sockets. Time is an argument in milliseconds.
"""
