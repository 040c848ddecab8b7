"""Records of whole topics, read from some offsets to others, and conditions on them.

- `topic_reading`      rounds of fetches, one per leader
- `filter_expression`  conditions on records, in Python's syntax
- `record_fields`      what conditions may name
- `needles`            what bytes must contain for a condition to hold
"""
