"""Kafka's jars for those tests that let Kafka judge; without them the tests say what is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.fetching import run_began_at

ROOT = Path(__file__).resolve().parents[2]

# The tools are part of the checkout, not of the package.
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    from tools.kafka_jars import JarsUnavailableError, have_jars

    try:
        return have_jars(asked_at=run_began_at())
    except JarsUnavailableError as error:
        pytest.skip(f"Kafka does not judge here: {error}")
