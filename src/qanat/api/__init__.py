"""The API layer: a handler and an authorization rule for each Kafka API, for all servers of a broker.

- `api_table`           which APIs are served, in which versions, by which module: one line each
- `request_context`     what a handler knows of a request besides its message; `caller` the client behind it
- `authorization`       what a caller may do, and a handler behind its rule; `allowed_operations` as bits (KIP-430)
- `permissions`         what a principal may do, remembered until the rules change
- `endpoints`           the address of a broker for a caller: that of the caller's own listener
- `interceptor`         the one place in front of all handlers
- `admin_tasks`         administration that runs to its end, whether or not the client waits
- `error_counts`        the errors that a response carries
- `records`             Produce, Fetch, ListOffsets and the like
- `groups`              consumer groups and their offsets
- `share`               share groups (KIP-932) and their state
- `transactions`        transactions and producer ids
- `client_metrics`      metrics that clients push (KIP-714)
- `topics`, `configs`, `cluster`, `security`  administration

A module per API opens with its card: the versions served, what each added, where it deliberately differs from Kafka.
It has `handle(request, context)` and `authorize(request, access)`.

Rule 1: a handler takes a `Caller`, never a connection: a Kafka client, an HTTP request and another broker look alike.
Rule 2: a module is imported with the first request of its API, so that a broker answers before it has loaded them all.
Rule 3: a handler yields between the rows of a long request (`RequestContext.yielder`).
"""
