"""The pipelines that come with Qanat.

- `catalogue`   the pipelines by name; add one there
- `metrics`     measurements checked, counted once and rolled up: `metrics_settings`, `metrics_run`, `rollup_processor`
- `archive`     topics into a lake: `archive_settings`, `archive_run`
- `replay`      a lake into topics: `replay_settings`, `replay_plan`, `replay_run`; `replay_drill` compares the two
- `mirror`      topics of one cluster in another: `mirror_settings`, `mirror_run`, `mirror_routes`
- `micro_batches`   a streaming read whose micro-batches go to a function
"""
