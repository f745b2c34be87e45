"""A program whose ranks perform so many operations and then wait for the test."""

from __future__ import annotations

from launched import WAIT_FOR

OPERATIONS = 30
PROGRAM = (
    WAIT_FOR
    + f"""
import numpy as np, hvdlite as hvd
hvd.init()
for step in range({OPERATIONS}): hvd.allreduce(np.ones(4), name="x")
wait_for("enough")
"""
)
