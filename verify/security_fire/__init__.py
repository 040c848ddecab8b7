"""Security under fire: secrets of three real brokers are rotated under load, and an open cluster is locked down.

- `brokers`            the processes of the brokers, killed with -9 and started again with other settings
- `identity_provider`  tokens, and the keys that they are signed with, by JWKS
- `clients`            writers and readers on librdkafka and aiokafka, and which of their errors are faults
- `administration`     users, passwords and ACLs, by librdkafka's AdminClient
- `rotation`           certificates, passwords, keys of tokens and ACLs are rotated, with kills in between
- `lockdown`           an open cluster becomes SASL_SSL with ACLs, by rolling restarts
- `judgement`          every acknowledged record is read again
- `outcome`            the report of each

`python -m verify.security_fire` (`make security-fire`) runs both; exit status 1 where a record is lost, or a client
got an error that retrying does not help.
"""
