"""The simulation's README is true: its examples run, and one seed gives one history."""

from __future__ import annotations

import doctest

from qanat.testing import simulation


def test_the_examples_of_the_package_run() -> None:
    outcome = doctest.testmod(simulation)

    assert outcome.attempted > 5
    assert outcome.failed == 0
