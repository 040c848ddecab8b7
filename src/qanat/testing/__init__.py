"""Testing with Qanat: a real broker in the test's own process, faults on demand, and a seeded simulation.

- `embedded`       `EmbeddedBroker`: a broker in a thread of its own
- `here`           `BrokerHere`: the same broker on the caller's event loop
- `faults`         planned faults: requests that are delayed, dropped or refused
- `error_responses`  for each API, a response with nothing but an error; parts of it are
  `transaction_error_responses`, `share_error_responses` and `security_error_responses`
- `groups`         session timeouts and rebalances of consumer groups on demand
- `secured`        users and ACLs of a broker
- `stored`         records read straight from the log
- `pipelines`      Spark pipelines on given rows, without a broker
- `pytest_plugin`  the fixtures `qanat_broker`, `qanat_broker_session`, `qanat_pipeline` and `qanat_spark`
- `apps`           `run`: an app's handlers under a virtual clock, with kills and replay by seed
- `simulated_broker`  the brokers of such a run
- `simulation`     a seeded disk, event loop and network, for tests of your own code

Nothing is mocked: clients of any kind connect to a port and speak the protocol. Names are
imported on first use, so that a test run with the unused plug-in pays nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qanat.model.error_codes import ErrorCode
    from qanat.testing.apps import AppRun, run
    from qanat.testing.embedded import EmbeddedBroker
    from qanat.testing.faults import Fault
    from qanat.testing.here import BrokerHere
    from qanat.testing.stored import StoredRecord

__all__ = ["AppRun", "BrokerHere", "EmbeddedBroker", "ErrorCode", "Fault", "StoredRecord", "run"]

_HOMES = {
    "AppRun": "qanat.testing.apps",
    "BrokerHere": "qanat.testing.here",
    "EmbeddedBroker": "qanat.testing.embedded",
    "ErrorCode": "qanat.model.error_codes",
    "Fault": "qanat.testing.faults",
    "StoredRecord": "qanat.testing.stored",
    "run": "qanat.testing.apps",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import gc
    from importlib import import_module

    # Imported modules stay: the collector would walk them a dozen times for nothing, a tenth of the import time.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return getattr(import_module(_HOMES[name]), name)
    finally:
        if was_enabled:
            gc.enable()
