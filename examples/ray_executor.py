"""A function on the ranks of a job on Ray: least squares, with the data divided among the ranks.

python examples/ray_executor.py --workers 2

Starts Ray on this machine. `--address auto` uses a running cluster. It needs Ray:
`pip install '.[ray]'` in a clone of hvdlite.
"""

import argparse

import ray

from hvdlite.ray import RayExecutor, ray_logger


def train(epochs, rate):
    import numpy as np

    import hvdlite as hvd

    hvd.init()
    random = np.random.default_rng(hvd.rank())  # each rank has data of its own
    truth = np.arange(1.0, 9.0)
    x = random.normal(size=(256, 8))
    y = x @ truth + random.normal(scale=0.01, size=256)
    weights = np.zeros(8)
    for epoch in range(epochs):
        error = x @ weights - y
        weights -= rate * hvd.allreduce(x.T @ error / len(x))
        loss = float(hvd.allreduce(np.mean(error**2)))
        if hvd.rank() == 0:
            ray_logger.log({"epoch": epoch, "loss": loss})
    return hvd.rank(), hvd.size(), hvd.local_rank(), weights.round(2).tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--address", help="of a running cluster; `auto`: the one of this machine")
    args = parser.parse_args()
    if args.address:
        ray.init(args.address)
    else:
        ray.init("local", num_cpus=args.workers, include_dashboard=False)

    executor = RayExecutor(RayExecutor.create_settings(), num_workers=args.workers)
    executor.start()

    def show(values):
        for value in values:
            if value["epoch"] % 10 == 9:
                print(f"epoch {value['epoch'] + 1}  loss {value['loss']:.5f}", flush=True)

    results = executor.run(train, args=[args.epochs, 0.2], callbacks=[show])
    for rank, size, local_rank, weights in results:
        print(f"rank {rank} of {size}, local rank {local_rank}: weights {weights}", flush=True)
    executor.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()
