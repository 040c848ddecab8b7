"""`qanat bench produce|consume|end-to-end|rebalance|partitions|connections`: any broker's figures, from outside.

The clients are librdkafka's, through confluent-kafka: what is measured is what an application would see.

- `produce` `consume` `end_to_end` `rebalance` `partitions` `connections`   one command each
- `options`     what these commands have in common, and what goes together
- `properties`  librdkafka's settings out of ours; whether the libraries are installed
- `temporary`   the topic that is measured on, made and removed
- `tasks`       what a worker is told, and what it tells
- `worker`      a process with some clients in it: `producing`, `consuming`
- `crew`        all workers of a run, started, watched and stopped
- `latencies`   HdrHistogram: what a latency is counted by
- `local`       processor time and memory of brokers on this machine
- `result`      what was found: a table, JSON, and by `page` HTML with plots

Rule 1: latency counts from the moment at which a record was to be sent, not from when the client got round to it: a
        broker that stalls is charged for every record that should have gone out meanwhile (no coordinated omission).
Rule 2: clients are processes of their own, as many as there are processors, so that none waits for another's
        interpreter.
Rule 3: what was made for a run is removed at its end, whatever ends it; Ctrl-C ends it with the results so far.
Rule 4: mistakes are told before anything is made or sent.
"""
