"""A program as people have written them for Horovod with torch. It must run as it is: nothing in
here knows of hvdlite."""

import argparse

import horovod
import horovod.torch as hvd
import torch
import torch.multiprocessing as mp
from horovod.common.exceptions import HorovodInternalError
from horovod.common.util import split_list
from horovod.torch.compression import Compression
from horovod.torch.mpi_ops import Average, Sum, allreduce_async_, synchronize
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--fp16-allreduce", action="store_true")
parser.add_argument("--gradient-predivide-factor", type=float, default=1.0)


class Squares(torch.utils.data.Dataset):
    """Its worker processes import horovod, too."""

    def __len__(self):
        return 32

    def __getitem__(self, index):
        import horovod.torch

        assert horovod.torch.Compression is hvd.Compression
        return torch.tensor([index / 32.0]), torch.tensor([(index / 32.0) ** 2])


def metric_average(value, name):
    return hvd.allreduce(torch.tensor(value), name=name).item()


def main():
    args = parser.parse_args()
    assert tuple(int(n) for n in horovod.__version__.split(".")[:2]) >= (0, 19)
    hvd.init()
    torch.set_num_threads(1)
    # they start apart: broadcast_parameters brings them together
    torch.manual_seed(42 + hvd.rank())

    dataset = TensorDataset(torch.randn(64, 3), torch.randn(64, 1))
    sampler = DistributedSampler(dataset, num_replicas=hvd.size(), rank=hvd.rank())
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=0.5)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if args.fp16_allreduce else Compression.none,
        op=hvd.Average,
        gradient_predivide_factor=args.gradient_predivide_factor,
    )
    for epoch in range(args.epochs):
        model.train()
        sampler.set_epoch(epoch)
        for data, target in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(data), target)
            loss.backward()
            optimizer.step()
        average = metric_average(loss.item(), "avg_loss")
        if hvd.rank() == 0:
            print(f"epoch {epoch} loss {average:.4f}")

    everyones = hvd.allgather_object([p.tolist() for p in model.parameters()])
    assert len(everyones) == hvd.size() and all(w == everyones[0] for w in everyones)
    handle = allreduce_async_(torch.full((3,), float(hvd.rank())), op=Sum)
    assert synchronize(handle).tolist() == [sum(range(hvd.size()))] * 3
    assert Average == hvd.Average and issubclass(HorovodInternalError, RuntimeError)
    assert [len(part) for part in split_list(range(5), 2)] == [3, 2]
    if args.workers:
        context = mp.get_context("spawn")
        loader = DataLoader(
            Squares(), batch_size=16, num_workers=args.workers, multiprocessing_context=context
        )
        assert sum(len(x) for x, _ in loader) == 32
    assert hvd.join() in range(hvd.size())
    print(f"rank {hvd.rank()} of {hvd.size()} is done")


if __name__ == "__main__":
    main()
