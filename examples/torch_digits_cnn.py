"""Trains a small convolutional network on handwritten digits. hvdlite needs only the marked lines.

hvdliterun -np 2 python examples/torch_digits_cnn.py
"""

import argparse
import time

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import hvdlite.torch as hvd


def make_model():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(16, 32, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(32 * 4 * 4, 10),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=32, help="per rank")
    parser.add_argument(
        "--lr", type=float, default=0.02, help="per rank; multiplied by the number of ranks"
    )
    args = parser.parse_args()

    hvd.init()  # <--
    torch.set_num_threads(1)
    torch.manual_seed(hvd.rank())

    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    train, test = order[:1437], order[1437:]
    data = TensorDataset(images[train], labels[train])
    # <--
    sampler = DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank(), drop_last=True)
    loader = DataLoader(data, args.batch_size, sampler=sampler, drop_last=True)

    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=0.9)
    # <--
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)  # <--
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)  # <--

    start = time.perf_counter()
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            correct = (model(images[test]).argmax(1) == labels[test]).float().mean()
        mean_loss = hvd.allreduce(loss.detach(), name="loss").item()  # <--
        if hvd.rank() == 0:
            print(
                f"epoch {epoch + 1}  loss {mean_loss:.4f}  test accuracy {correct:.4f}", flush=True
            )
    seconds = time.perf_counter() - start
    if hvd.rank() == 0:
        samples = args.epochs * len(loader) * args.batch_size * hvd.size()
        print(f"{hvd.size()} ranks, {samples / seconds:.0f} samples/s")
    hvd.shutdown()


if __name__ == "__main__":
    main()
