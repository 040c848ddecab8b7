"""What the commands of `qanat bench` that measure a cluster share: load, worker processes, latencies, results.

The clients are librdkafka's, through confluent-kafka: they measure what an application would see.

- `options`                the options that these commands share
- `librdkafka_properties`  librdkafka's settings from client settings; whether the libraries are installed
- `temporary_topic`        the topic under test, created and deleted
- `worker_messages`        tasks and reports between a run and its workers
- `worker`                 a process with some clients: `producing_client`, `consuming_client`
- `worker_pool`            all workers of a run: started, watched, stopped
- `latencies`              latencies in an HdrHistogram
- `broker_usage`           processor time and memory of brokers on this machine
- `load_progress`          the progress bar of a run
- `result`                 figures, tables and plots; `result_output` prints them, `html_page` writes a page

Rule 1: latency counts from the time at which a record should be sent, not from when the client sends it: a broker that
        stalls is charged for every record that should have gone out meanwhile (no coordinated omission).
Rule 2: clients are processes of their own, as many as there are processors, so that none waits for another's
        interpreter.
Rule 3: a run deletes what it created, whatever ends it; Ctrl-C ends it with the results so far.
Rule 4: mistakes are reported before anything is created or sent.
"""
