"""A function on Spark's executors: logistic regression on handwritten digits.

    pip install ".[spark]" scikit-learn      in a clone of hvdlite
    python examples/spark_digits.py          a Spark of its own on this machine, with two slots
    spark-submit examples/spark_digits.py    an existing cluster

Each rank trains on its part of the digits, and gradients are averaged over all ranks.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from hvdlite import spark as hvd_spark


def train(steps: int) -> tuple[int, str, float, float]:
    """Runs in each rank, a process beside a task of Spark."""
    import numpy as np
    from sklearn.datasets import load_digits

    import hvdlite as hvd

    hvd.init()
    images, labels = load_digits(return_X_y=True)
    images = np.hstack([images / 16, np.ones((len(images), 1))])
    test, rest = slice(0, 360), slice(360 + hvd.rank(), None, hvd.size())
    mine, wanted = images[rest], np.eye(10)[labels[rest]]
    weights = np.zeros((65, 10))
    for _ in range(steps):
        powers = np.exp(mine @ weights)
        gradient = mine.T @ (powers / powers.sum(1, keepdims=True) - wanted) / len(mine)
        weights -= 2 * hvd.allreduce(gradient, name="gradient")
    right = (images[test] @ weights).argmax(1) == labels[test]
    who = f"rank {hvd.rank()} of {hvd.size()}"
    return hvd.rank(), who, float(right.mean()), float((weights**2).sum())


def main() -> None:
    builder: Any = SparkSession.builder
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    ranks = min(2, spark.sparkContext.defaultParallelism)
    for _, who, accuracy, total in hvd_spark.run(train, (100,), num_proc=ranks):
        print(f"{who}  test accuracy {accuracy:.3f}  squared weights {total:.6f}")
    spark.stop()


if __name__ == "__main__":
    main()
