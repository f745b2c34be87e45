"""hvdlite.spark.run over Spark Connect, in a process of its own: a process has one kind of
session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from spark_session import SLOW, needs_spark

needs_spark()
for _module in ("grpc", "grpc_status", "google.rpc", "zstandard"):
    pytest.importorskip(_module, reason=f'{_module} is missing: pip install "pyspark[connect]"')

pytestmark = [pytest.mark.watchdog(3 * SLOW), pytest.mark.full]

PROGRAM = """
from pyspark.sql import SparkSession
session = (SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false")
           .config("spark.driver.memory", "512m").getOrCreate())
assert ".connect." in type(session).__module__
from hvdlite import spark

def add(fails):
    import numpy as np
    import hvdlite as hvd
    hvd.init()
    if fails and hvd.rank() == 1:
        raise KeyError("own")
    return hvd.rank(), float(hvd.allreduce(np.ones(2), op=hvd.Sum)[0])

print("results", spark.run(add, (False,), num_proc=2), flush=True)
for asked in ((True,), 2), ((False,), 5):
    try:
        spark.run(add, asked[0], num_proc=asked[1])
    except Exception as error:
        print(type(error).__name__, str(error).split(chr(10))[0], flush=True)
session.stop()
"""


def test_connect_takes_the_same_path(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "results [(0, 2.0), (1, 2.0)]", done.stdout
    assert lines[1].startswith("RuntimeError rank 1 on ") and "raised KeyError: 'own'" in lines[1]
    assert lines[2].startswith("ValueError hvdlite.spark.run(num_proc=5) needs 5 slots")
