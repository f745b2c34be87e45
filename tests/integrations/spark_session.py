"""A Spark for tests: sessions are slow to start, and one file shares one."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Seconds. A session takes 10 on an idle machine, and two minutes have been seen on a busy one.
SLOW = 60


def needs_spark() -> None:
    """Skips the calling module where something is missing."""
    pytest.importorskip("pyspark", reason='pyspark is not installed: pip install ".[spark]"')
    pytest.importorskip("pyarrow", reason='pyarrow is not installed: pip install ".[spark]"')
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip(
            "there is no Java: apt-get install default-jre-headless", allow_module_level=True
        )


EXECUTOR, TASK = "java", "pyspark.daemon"


def kill_above(word: str) -> None:
    """In a rank: kills its executor, or the Python worker of its task, as the kernel does where
    memory is short."""
    pid = os.getppid()
    while pid > 1:
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        if word in (os.path.basename(words[0]), *words):
            os.kill(pid, signal.SIGKILL)
            return
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    raise RuntimeError(f"no process above this rank is {word}")


@contextlib.contextmanager
def classic(folder: Path, master: str = "local-cluster[1,2,1024]") -> Iterator[Any]:
    """A session on a cluster of one executor with two slots, whose files are in `folder`."""
    from pyspark.sql import SparkSession

    before = dict(os.environ)
    os.environ["SPARK_WORKER_DIR"] = str(folder / "worker")
    os.environ["SPARK_LOCAL_DIRS"] = str(folder / "local")
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.executor.memory", "512m")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()
        from pyspark import SparkContext

        if SparkContext._gateway is not None:  # or the JVM stays until this process ends
            SparkContext._gateway.shutdown()
            if hasattr(SparkContext._gateway, "proc"):
                SparkContext._gateway.proc.stdin.close()
                SparkContext._gateway.proc.wait()
            SparkContext._gateway = SparkContext._jvm = None
        os.environ.clear()
        os.environ.update(before)
