"""Handlers in the broker: apps of `qanat.client` whose worker processes a broker starts, watches and ends.

- `handler_supervisor`    all workers of one broker
- `worker_process`  one worker: started, watched, ended, started again
- `restarts`        when a worker that ended is started again; pure
- `signal_scope`    a worker's signals reach itself and what it starts

Rule 1: code of users runs in processes of its own, never in the broker's. The broker reads small reports from a pipe,
        and nothing that a worker sends there can do more than end that worker.
Rule 2: a worker that is silent is killed, one that ends is started again, after pauses that double: no handler stops
        the broker, delays its start, or holds up its end for longer than `handlers.shutdown.timeout.ms`.
Rule 3: only settings of this process name apps: a file, variables, flags. AlterConfigs cannot.

What the setting may name is in `app.settings.handler_names`. The other end of the pipe is `app.apps.handler_worker`;
both speak `telemetry.handler_apps`.
"""
