"""Crash testing of one log: power cuts at every operation, recovery and checks, from a seed.

- `log_rig`       a log with its clients, its checkpoints and its history
- `log_workload`  seeded operations on the rig
- `log_history`   the model: what the log may hold after a crash
- `log_checks`    the comparison of a recovered log with the model
- `crash_sweep`   crash images at every operation of a workload; `python -m verify.logs` (`make sim-log`) runs many

The seeded disk is `qanat.testing.simulation.disk`; the property tests in `tests/sim` drive the same rig.

Rule: one seed, one history, and a failure names the command that replays it.
"""
