"""An app of `qanat.client` under fire, on three brokers of Qanat or of Apache Kafka: `make app-fire`.

    python -m verify.app_fire                          on Qanat, 40 faults
    python -m verify.app_fire --on kafka --faults 20 --seed 7

Workers (`qanat run`) are killed with -9 and frozen, others come and go, brokers are killed with -9, while handlers are
slow, fail for a while, or fail for good.

- `handlers`   the app: streams at least once (on the loop, in threads, in processes) and exactly once, a chain of two,
               batches, and a queue with long jobs
- `journal`    what handlers note, line by line, so that it is true whenever a worker is killed
- `conductor`  fills the topics, causes the faults, and collects the evidence
- `sides`      three brokers of Qanat or of Kafka with the same settings
- `checks`     the judgement: nothing is lost; nothing is doubled with exactly_once, and otherwise only what was not
               committed runs again; the order of keys is kept; no offset is committed past an unfinished record
"""
