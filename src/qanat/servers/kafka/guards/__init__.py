"""What an asker must be allowed to do for each API, where an authoriser is configured (Kafka's own rules).

- `asking`       who asks; what a guard decides; how it is put around a handler
- `table`        which guard belongs to which API: one line each, and a test that none is missing
- `topics` · `records` · `groups` · `shares` · `shared_records` · `cluster` · `transactions` the guards

A guard takes out of a request what its asker may not do, lets the handler do the rest, and puts the
refusals into the answer. Handlers know nothing of it, and where no authoriser is configured it costs one comparison.

Rule 1: what an asker may not see looks the same whether or not it exists.
Rule 2: an API without a guard is refused altogether.
"""
