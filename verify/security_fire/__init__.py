"""Security under fire: secrets of three real brokers are rotated under load, and an open cluster is locked down.

- `brokers`            the processes of the brokers, killed with -9 and started again with other settings
- `identity_provider`  tokens, and the keys that they are signed with, by JWKS
- `clients`            writers and readers on librdkafka and aiokafka, and which of their errors are faults
- `http_clients`       a writer with API keys, and streams that end with theirs
- `client_set`         all clients of a rotation, and what they know
- `administration`     users, passwords, ACLs and API keys, and whether a client is let in
- `changes`            certificates, the authority, passwords, API keys, keys of tokens and ACLs are changed
- `rotation`           all of that, with kills in between
- `lockdown`           an open cluster becomes SASL_SSL with ACLs, by rolling restarts
- `judgement`          every acknowledged record is read again
- `outcome`            the report of each

`python -m verify.security_fire` (`make security-fire`) runs rounds of both, each by a seed; exit status 1 where a
record is lost, a client got an error that retrying does not help, or what was taken away still counts.
"""
