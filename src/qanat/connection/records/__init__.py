"""Records of whole topics, read from some offsets to others.

- `topic_reading`      rounds of fetches, one per leader
- `filter_expression`  conditions on records, in Python's syntax
"""
