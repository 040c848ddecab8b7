"""Conformance with Apache Kafka: scripted conversations with both, their answers compared field by field.

- `script`        the conversations by name, and what most of them begin with
- `conversations` the scripts, a module for each family of APIs
- `play`          a conversation being held: requests on raw connections, answers written down
- `users`         the users of a secured broker and their rules; `cast` asks for each API as each of them
- `normal_form`   answers in a form that compares: drawn ids named, clocks and addresses left out
- `brokers`       the two brokers: Qanat in this process, Apache Kafka with the same settings
- `table`         recorded answers as files, and the fields that differ
- `record`        holds every conversation with Kafka and records it: `python -m verify.conformance.record`
- `page`          `docs/protocols/differences.md`, made from the list of known differences

Kafka's answers and the list of known differences lie in `tests/conformance`, whose test holds the same conversations
with Qanat.
"""
