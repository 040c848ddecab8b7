"""The runtime of the broker: tasks, clock, cooperative yields and links to other brokers.

- `parked_tasks`        responses that wait and other work under way; closing the broker cancels them
- `ack_timeouts`        timeouts of acknowledgements: one timer for many
- `detached_work`       work that goes on after its client has gone, or is abandoned
- `cooperative_yield`   long work of one request, cut into pieces so that others are served meanwhile
- `steady_clock`        the event loop's clock
- `peers`               requests to other brokers
- `client_metrics`      metrics that clients push (KIP-714), and who may push which when
- `operator_events`     log events about logs, disks and committed changes

Rule: it imports no other package of the broker.
"""
