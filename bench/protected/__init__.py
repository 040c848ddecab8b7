"""Figures of protected brokers: TLS, SASL and ACLs on both sides, many rules, guessed passwords.

    python -m bench.protected            six minutes at most; part of make performance
    python -m bench.protected --quick    a minute

- `servers`     Qanat and Apache Kafka with the same certificate, users and rules
- `workloads`   loads on both sides, by one client and by a hundred
- `rules`       Qanat with 10,000 rules, by turns with Qanat without an authorizer
- `guesses`     synchronous produce while another address guesses passwords
- `guessing`    the guesses: many connections that each send one password
- `sink`        where guesses go in quiet runs: a server that closes each connection
"""
