"""Servers: what clients connect to.

- `kafka`    the Kafka protocol over TCP: connections, limits, dispatch, SASL, fast paths
- `http`     HTTP/1.1: produce, consume, administer, observe
- `push`     the push protocol: records are sent to subscribers as soon as they can be read
- `metrics`  `GET /metrics` on an address of its own
- `tls`      TLS of all of them: contexts, handshakes, certificates that change
- `listener_security`    authentication and authorization of a listener, for all of them
- `request_accounting`   counts and times every request, and logs slow ones, for all of them
- `login_guard`          limits failed logins, for all of them
- `guarded_accept`       closes new connections of addresses that the guard shuts out

Rule 1: servers translate. What a request means stands in `qanat.api`, once for all servers.
Rule 2: a server does not import another; metrics alone reads the Kafka listener's counters.
"""
