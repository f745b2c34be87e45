"""scripts/soak-elastic for a moment; the half hour is for people."""

from __future__ import annotations

import pytest
import tier
from elastic_soak import Soak
from launched import Job


@pytest.mark.full
@pytest.mark.watchdog(120)
def test_an_elastic_job_survives_all_that_happens_to_it(job: Job) -> None:
    said: list[str] = []
    soak = Soak(job, tier.draw("soak", 1000), said.append)
    soak.go_on(seconds=20, pause=(0.1, 1.0))
    soak.check()
    assert any(soak.times.values()), said
