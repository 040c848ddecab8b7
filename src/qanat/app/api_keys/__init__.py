"""`qanat api-key`: keys of HTTP clients.

- `add`, `list`, `remove`  the commands
- `key_store`              the keys in a metadata store
"""
