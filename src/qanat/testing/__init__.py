"""What users import in their tests: a real broker in the test's own process, and trouble on demand.

- `embedded`       `EmbeddedBroker`: a broker in a thread of its own
- `here`           `BrokerHere`: the same broker on the caller's loop
- `faults`         requests that are delayed, dropped or refused by plan
- `refusals`, `transaction_refusals`, `share_refusals`  for each API, the answer that says nothing but an error
- `groups`         members that are thrown out, groups that must rebalance
- `stored`         records read straight from the log
- `pytest_plugin`  the fixtures `qanat_broker` and `qanat_broker_session`

Nothing is imitated: clients of any kind connect to a port and speak the protocol. Names are
imported on first use, so that a test run that has the plug-in and does not use it pays nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qanat.model.error_codes import ErrorCode
    from qanat.testing.embedded import EmbeddedBroker
    from qanat.testing.faults import Fault
    from qanat.testing.here import BrokerHere
    from qanat.testing.stored import StoredRecord

__all__ = ["BrokerHere", "EmbeddedBroker", "ErrorCode", "Fault", "StoredRecord"]

_HOMES = {
    "BrokerHere": "qanat.testing.here",
    "EmbeddedBroker": "qanat.testing.embedded",
    "ErrorCode": "qanat.model.error_codes",
    "Fault": "qanat.testing.faults",
    "StoredRecord": "qanat.testing.stored",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import gc
    from importlib import import_module

    # What is imported stays: the collector would go over it a dozen times for nothing, a tenth of the time it takes.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return getattr(import_module(_HOMES[name]), name)
    finally:
        if was_enabled:
            gc.enable()
