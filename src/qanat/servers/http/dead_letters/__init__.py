"""Dead letters over HTTP.

- `selecting`  parameters that select letters
- `letters`    letters listed
- `redrive`    letters written back to where they come from
"""
