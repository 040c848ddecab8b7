"""The Python client beside others: CPU time per message and messages per second, in one run by turns.

`python -m bench.client` starts a broker in a process of its own and lets each client send the same records. The CPU
time is that of the client's process, all its threads; the broker's is not in it.

- `broker`   the broker
- `produce`  producers: every record's delivery is reported, by receipt or by callback
- `consume`  consumers: records, batches and Arrow
- `queues`   members of a share group
- `handlers` handlers of an `App`
"""
