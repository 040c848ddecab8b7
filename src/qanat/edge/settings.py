"""Settings of a node in the tree."""

from __future__ import annotations

from typing import Literal

from qanat.model.settings import NotNegative, Positive, Settings


class EdgeSettings(Settings, frozen=True):
    """The place of this broker in a tree: its registry, and the pipe to its parent."""

    registry_url: str = ""
    """Address of the registry that says which parent this broker has, such as `http://registry.example:8080`: any
    broker's HTTP address. Without it the broker stands alone."""
    registry_poll_interval_ms: Positive = 30_000
    """How often the registry is asked where it does not park requests; 20 % more or less."""
    edge_url: str = ""
    """Address at which children of this broker reach its HTTP server; without it the one that HTTP is served on."""
    edge_role: Literal["", "ROOT", "L2", "L3", "POS", "LOCAL"] = ""
    """The role that this broker expects; where the registry assigns another, both refuse."""
    edge_authorization: str = ""
    """The `Authorization` header for registry and parents, such as `ApiKey qk_...`."""
    pipe_poll_interval_ms: Positive = 1_000
    """The pause after an empty or failed answer of a parent."""
    pipe_batch_size: Positive = 100
    """Most messages of one answer of a feed in JSON; answers in batches are sized by the speed of the link."""
    pipe_max_bytes_per_s: NotNegative = 0
    """Bandwidth that the pipe may use; 0 is no limit."""
    pipe_up_max_bytes_per_s: NotNegative = 0
    """Bandwidth that records on their way up may use; 0 is no limit."""
    pipe_priority_topics: str = ""
    """Topics that are pulled, or go up, first, separated by commas; `*` at the end stands for any rest."""
    pipe_on_gap: Literal["stop", "skip", "refresh"] = "stop"
    """What to do where retention of the parent has passed this broker: stop the partition, skip the lost range, or
    empty the copy and begin again. The range is reported in every case."""
