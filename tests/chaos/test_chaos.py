"""Three real brokers under faults, in short. Longer: `make chaos`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.adapters.etcd_servers import etcd_program
from verify.chaos.network import NetworkUnavailableError
from verify.chaos.plan import KINDS, LYING_KINDS
from verify.chaos.report import Findings
from verify.chaos.run import Run, Wanted

from qanat.model.errors import StoreUnavailableError

pytestmark = [pytest.mark.long, pytest.mark.data]

FEW = 300
"""Records a second: the machine has other tests to run."""


def play(wanted: Wanted, folder: Path) -> Findings:
    try:
        findings = asyncio.run(Run(wanted, folder, lambda _: None).run())
    except (NetworkUnavailableError, StoreUnavailableError) as fault:
        pytest.skip(str(fault))
    return findings


def test_nothing_is_lost_doubled_or_out_of_place_under_faults_of_every_kind(tmp_path: Path) -> None:
    # A lying disk is injected alone, and takes longer than its period: half a minute in all.
    wanted = Wanted(seed=1, seconds=len(KINDS), period_s=1, rate=FEW, least_rate=FEW / 10, least_faults=1)

    findings = play(wanted, tmp_path)

    assert findings.anomalies == [], findings.table()
    assert findings.shortfalls == []
    assert len(findings.lies) == len(LYING_KINDS)


def test_nothing_is_lost_on_etcd_that_is_killed_and_cut_off(tmp_path: Path) -> None:
    etcd_program()
    kinds = ("store", "partition", "one-way", "kill", "pause")
    wanted = Wanted(
        store="etcd",
        seconds=15,
        period_s=3,
        rate=FEW,
        least_rate=FEW / 10,
        least_faults=1,
        kinds=kinds,
        group_protocol="consumer",
    )

    findings = play(wanted, tmp_path)

    assert findings.anomalies == [], findings.table()
    assert findings.shortfalls == []
