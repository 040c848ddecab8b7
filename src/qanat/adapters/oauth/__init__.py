"""Tokens of an identity provider, checked with keys that are fetched from it.

- `jwks_tokens`   the check of a token, and the fetch of the keys that it needs
"""
