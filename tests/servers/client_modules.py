"""Import the clients that judge us."""

import warnings
from importlib import import_module
from typing import Any


def client_module(name: str) -> Any:
    """The module of a client. `make setup` installs the clients: a missing one is a failure, not a skip."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # kafka-python reads its schemas by a deprecated function
        return import_module(name)
