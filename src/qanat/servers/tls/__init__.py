"""TLS of a broker's servers: Kafka's listeners, HTTP, metrics, and the client side between brokers.

- `contexts`      TLS contexts of both sides from settings
- `listener_tls`  the TLS of one listener: its context in force, the principals of its clients, its certificate's end
- `handshake`     a connection from its acceptance to the end of its handshake
- `alerts`        what a client is told where its handshake fails

Rule 1: a connection takes the context that is in force when it is accepted; new files change new connections only.
Rule 2: what cannot be used is refused before it is in force: the context before it stays.
"""
