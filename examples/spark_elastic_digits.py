"""An elastic job on Spark: logistic regression on digits goes on when a rank dies.

    pip install ".[spark]" scikit-learn      in a clone of hvdlite
    python examples/spark_elastic_digits.py --kill    a Spark of its own, with two slots
    spark-submit examples/spark_elastic_digits.py     an existing cluster

Each rank trains on its part of the digits. With `--kill`, the last of the two first ranks kills
itself in the middle; the other one goes on from the last commit, and a new rank comes.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from pyspark.sql import SparkSession

from hvdlite import spark as hvd_spark


def train(steps: int, kill: bool) -> tuple[int, int, float, float]:
    """Runs in each rank, a process beside a task of Spark."""
    import numpy as np
    from sklearn.datasets import load_digits

    import hvdlite as hvd

    hvd.init()
    images, labels = load_digits(return_X_y=True)
    images = np.hstack([images / 16, np.ones((len(images), 1))])
    test = slice(0, 360)
    state = hvd.elastic.ObjectState(step=0, weights=np.zeros((65, 10)))

    @hvd.elastic.run
    def run(state: Any) -> None:
        rest = slice(360 + hvd.rank(), None, hvd.size())
        mine, wanted = images[rest], np.eye(10)[labels[rest]]
        print(f"step {state.step}: rank {hvd.rank()} of {hvd.size()}", flush=True)
        while state.step < steps:
            if kill and state.step == steps // 2 and hvd.elastic.member() == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            powers = np.exp(mine @ state.weights)
            gradient = mine.T @ (powers / powers.sum(1, keepdims=True) - wanted) / len(mine)
            state.weights = state.weights - 2 * hvd.allreduce(gradient, name="gradient")
            state.step += 1
            state.commit()

    run(state)
    right = (images[test] @ state.weights).argmax(1) == labels[test]
    return hvd.rank(), hvd.size(), float(right.mean()), float((state.weights**2).sum())


def main() -> None:
    builder: Any = SparkSession.builder
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    ranks = min(2, spark.sparkContext.defaultParallelism)
    kill = "--kill" in sys.argv[1:]
    found = hvd_spark.run_elastic(train, (100, kill), num_proc=ranks, min_num_proc=1)
    for rank, size, accuracy, total in found:
        print(f"rank {rank} of {size}  test accuracy {accuracy:.3f}  squared weights {total:.6f}")
    spark.stop()


if __name__ == "__main__":
    main()
