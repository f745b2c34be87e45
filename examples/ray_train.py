"""Ray Train with hvdlite: a perceptron for digits, with a checkpoint after each epoch.

python examples/ray_train.py --workers 2

Starts Ray on this machine. `--address auto` uses a running cluster. It needs
scikit-learn and Ray: `pip install '.[ray]'` in a clone of hvdlite.
"""

import argparse
import os
import tempfile

import numpy as np
import ray
import ray.train
from ray.train import Checkpoint, RunConfig, ScalingConfig

from hvdlite.ray.train import DataParallelTrainer, HvdliteConfig


def train(config):
    from sklearn.datasets import load_digits

    import hvdlite as hvd

    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.data))
    images, labels = digits.data[order] / 16, np.eye(10)[digits.target[order]]
    mine = slice(hvd.rank(), 1400, hvd.size())
    weights = np.zeros((64, 10))
    start = 0
    if (last := ray.train.get_checkpoint()) is not None:
        with last.as_directory() as folder:
            state = np.load(os.path.join(folder, "state.npz"))
            start, weights = int(state["epoch"]), state["weights"]
    for epoch in range(start, config["epochs"]):
        for _ in range(20):
            scores = images[mine] @ weights
            p = np.exp(scores - scores.max(1, keepdims=True))
            error = p / p.sum(1, keepdims=True) - labels[mine]
            weights = weights - 2.0 * hvd.allreduce(images[mine].T @ error / len(error))
        right = (images[1400:] @ weights).argmax(1) == labels[1400:].argmax(1)
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if hvd.rank() == 0:
                np.savez(os.path.join(folder, "state.npz"), epoch=epoch + 1, weights=weights)
                checkpoint = Checkpoint.from_directory(folder)
            # All workers call it.
            ray.train.report(
                {"epoch": epoch + 1, "accuracy": float(right.mean()), "ranks": hvd.size()},
                checkpoint=checkpoint,
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--storage", help="a folder that all nodes see")
    parser.add_argument("--address", help="of a running cluster; `auto`: the one of this machine")
    args = parser.parse_args()
    if args.address:
        ray.init(args.address)
    else:
        # One more CPU for the controller of Ray Train.
        ray.init("local", num_cpus=args.workers + 1, include_dashboard=False)
    storage = args.storage or tempfile.mkdtemp()
    result = DataParallelTrainer(
        train,
        train_loop_config={"epochs": args.epochs},
        backend_config=HvdliteConfig(),
        scaling_config=ScalingConfig(num_workers=args.workers),
        run_config=RunConfig(name="digits", storage_path=storage),
    ).fit()
    said = result.metrics
    print(f"{said['ranks']} ranks, epoch {said['epoch']}, accuracy {said['accuracy']:.3f}")
    with result.checkpoint.as_directory() as folder:
        print(f"the checkpoint has the weights of epoch {np.load(f'{folder}/state.npz')['epoch']}")
    ray.shutdown()


if __name__ == "__main__":
    main()
