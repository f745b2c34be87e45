"""Mixed precision on the CPU: the model computes in bfloat16, and gradients are sent in bfloat16.

hvdliterun -np 2 python examples/torch_amp_bf16.py
"""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

import hvdlite.torch as hvd


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    args = parser.parse_args()

    hvd.init()
    torch.set_num_threads(1)
    digits = load_digits()
    x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        named_parameters=model.named_parameters(),
        # sends half of the bytes; bfloat16 has float32's range, so it needs no scaling
        compression=hvd.Compression.bf16,
    )
    generator = torch.Generator().manual_seed(hvd.rank())
    for step in range(args.steps):
        batch = torch.randint(1437, (32,), generator=generator)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x[batch]), y[batch])
        loss.backward()
        # Clipping comes between the reduction and the step:
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with optimizer.skip_synchronize():
            optimizer.step()
        if hvd.rank() == 0 and (step + 1) % 50 == 0:
            print(f"step {step + 1:3d}  loss {loss.item():.4f}", flush=True)
    with torch.no_grad():
        accuracy = (model(x[1437:]).argmax(1) == y[1437:]).float().mean().item()
    if hvd.rank() == 0:
        print(
            f"{hvd.size()} ranks, accuracy {accuracy:.4f}, parameters are {model[0].weight.dtype}"
        )
    hvd.shutdown()


if __name__ == "__main__":
    main()
