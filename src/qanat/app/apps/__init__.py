"""`qanat run`: an app's handlers in worker processes.

- `run`         the command
- `app_lookup`  `module:app` to an `App`, and what is wrong with it
- `worker`      one worker process
- `supervisor`  starts workers, restarts those that end, stops all
- `handler_worker`  one worker process that a broker started (`app.handlers`)
- `source_watch`  changes of source files, for `--reload`
"""
