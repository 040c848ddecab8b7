"""The Python client beside others: CPU time per message and messages per second, in one run by turns.

`python -m bench.client` measures everything and compares it with its bar; `--only produce` measures a part. A broker
runs in a process of its own. The CPU time is that of the client's process, all its threads, and decides; the broker's
is not in it.

- `produce`   producers: every record's delivery is reported, by receipt or by callback
- `consume`   consumers: records, batches and Arrow
- `handlers`  handlers of an `App`, without a network
- `handled`   handlers of an `App` on a broker, beside FastStream's
- `queues`    members of a share group; `queue_client` is one of them
- `imports`   what an import costs
- `idle`      clients that have nothing to do
- `turns`     figures of one client; `bars` the figures that must be reached
- `page`      the page of a run; `broker` the broker
"""
