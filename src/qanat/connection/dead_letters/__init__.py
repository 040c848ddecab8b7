"""Dead letters read, selected, and redriven: written back to where each came from.

- `selection`  which letters, by origin, reason and condition (pure)
- `marks`      which letters of a partition were redriven, as one committed offset and a note (pure)
- `reading`    the letters of a topic
- `redrive`    transactions of letters with their marks

The headers of a letter are `qanat.model.dead_letters`.
"""
