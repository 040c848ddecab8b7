"""Who asks, and what they may do. Principals, ACL evaluation, credentials and the key ring will live here.

- `settings`       what a broker may be told about security
- `authentication` the port for SASL mechanisms: a dialogue of tokens, step by step
- `conversation`   one connection's way from a stranger to a principal
- `plain`          the mechanism PLAIN
- `authorization`  the port for whoever decides what a principal may do, and Kafka's words for it

Rule: everything here is pure. A mechanism that has to read a file is made by an adapter.
"""
