"""`qanat run`: an app's handlers in worker processes.

- `run`         the command
- `app_lookup`  `module:app` to an `App`, and what is wrong with it
- `worker`      one worker process
- `process_end`  the end of a worker process whose threads still block
- `supervisor`  starts workers, restarts those that end, stops all, kills those that do not stop
- `handler_worker`  one worker process that a broker started (`app.handlers`)
- `source_watch`  changes of source files, for `--reload`
"""
