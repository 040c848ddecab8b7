"""`qanat dlq`: dead letters listed, shown, and redriven.

- `letter_options`  flags that select letters
- `list`, `show`, `redrive`  the commands
"""
