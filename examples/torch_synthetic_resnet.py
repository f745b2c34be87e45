"""Measures the speed of training: a ResNet on random images, with and without compression.

hvdliterun -np 2 python examples/torch_synthetic_resnet.py
"""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F

import hvdlite.torch as hvd


class Block(torch.nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = torch.nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = torch.nn.BatchNorm2d(outputs)
        self.second = torch.nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = torch.nn.BatchNorm2d(outputs)
        self.shortcut = torch.nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.norm1(self.first(x)))
        return F.relu(self.norm2(self.second(y)) + self.shortcut(x))


def make_model(width):
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, width, 3, padding=1, bias=False),
        *(
            Block(width * i, width * o, s)
            for i, o, s in ((1, 1, 1), (1, 2, 2), (2, 4, 2), (4, 8, 2))
        ),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * width, 100),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--batch-size", type=int, default=8, help="per rank")
    parser.add_argument("--image", type=int, default=32)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--compression", choices=["none", "fp16", "bf16"], default="none")
    parser.add_argument(
        "--groups", type=int, default=None, help="reduce gradients in so many groups"
    )
    args = parser.parse_args()

    hvd.init()
    torch.set_num_threads(1)
    model = make_model(args.width)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size()),
        named_parameters=model.named_parameters(),
        compression=getattr(hvd.Compression, args.compression),
        groups=args.groups,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)

    images = torch.randn(args.batch_size, 3, args.image, args.image)
    labels = torch.randint(100, (args.batch_size,))
    seconds = []
    for step in range(args.steps + 1):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        if step > 0:  # the first is for warming up
            seconds.append(time.perf_counter() - start)

    mine = args.batch_size / statistics.median(seconds)
    total = hvd.allreduce(torch.tensor(mine), op=hvd.Sum).item()
    if hvd.rank() == 0:
        count = sum(p.numel() for p in model.parameters())
        print(
            f"{count / 1e6:.2f} million parameters in {len(list(model.parameters()))} tensors, "
            f"loss {loss.item():.3f}"
        )
        print(
            f"{hvd.size()} ranks, {total:.1f} images/s ({mine:.1f} on this rank), compression "
            f"{args.compression}"
        )
    hvd.shutdown()


if __name__ == "__main__":
    main()
