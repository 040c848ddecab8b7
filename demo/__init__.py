"""`make demo`: a broker, the pipeline on Spark and the log at work, on this machine's disk, checked as they go.

Each chapter measures, checks what it claims and fails the run if a claim does
not hold.

- `claims`   what must be so
- `pipeline` a fleet's measurements through a broker and the pipeline `metrics`
- `fleet`    those measurements, late, doubled and broken ones among them, and the truth about them
- `feeding`  how they get into the broker; another door is another function there
- `rollups`  what came out, read without Spark and compared with the truth
- `report`   the page and the picture that stay
- `broker`   a broker process, driven by librdkafka, killed and started again
- `metrics`  made-up but lifelike measurements, and their plain totals to compare with
- `chapters` the log driven directly: ingest durably, read back as columns, die and recover, compact
- `writer`   the process that is killed there
"""
