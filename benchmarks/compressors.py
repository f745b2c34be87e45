"""How accurate do models get with compressed gradients? Digits, as in the table of the design.

    python benchmarks/compressors.py             docs/benchmarks/compression.md, in 20 minutes
    python benchmarks/compressors.py --quick     one seed, in two

A network of 64-256-256-10 learns scikit-learn's digits with 4 workers of 16 samples each: SGD,
momentum 0.9, learning rate 0.1 that falls as a cosine. The workers are simulated in one process,
over the code that the frameworks run (hvdlite/adapter/compression). Counted are the bytes that a
rank sends.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits

import hvdlite as hvd
from hvdlite.adapter.compression import codecs
from hvdlite.adapter.compression.dgc import DGC
from hvdlite.adapter.compression.methods import DENSE, Encoded, Gather, Method, Sum, rounds_of
from hvdlite.adapter.compression.on_numpy import ALGEBRA, NumpyAlgebra
from hvdlite.adapter.compression.powersgd import PowerSGD
from hvdlite.adapter.compression.rounds import ask_encoded
from hvdlite.adapter.compression.topk import TopK
from hvdlite.base.operations import ALLREDUCE
from hvdlite.core import engine
from hvdlite.core.engine import run_now
from hvdlite.core.operations import Call

Array = Any
LAYERS = (64, 256, 256, 10)
WORKERS, BATCH, RATE, MOMENTUM = 4, 16, 0.1, 0.9
TEST = 360
DOCS = Path(__file__).parent.parent / "docs" / "benchmarks"


class Row(NamedTuple):
    """A method, and the accuracies that the design's table promises, in per cent."""

    name: str
    make: Callable[[int], Method | None]  # of the number of epochs
    goals: dict[int, float]


class NotLent(NumpyAlgebra):
    """The ranks of this program are no ranks of the core."""

    def is_lent(self, array: Array) -> bool:
        return False


def numpys() -> Any:
    return NotLent()


def warmup(epochs: int) -> int:
    return 4 if epochs >= 20 else 2


ROWS = (
    Row("dense", lambda epochs: None, {}),
    Row("topk 1 %", lambda epochs: TopK(numpys, 0.01), {}),
    Row("topk 0.1 %", lambda epochs: TopK(numpys, 0.001), {}),
    Row("dgc 1 %, warm-up", lambda epochs: DGC(numpys, 0.01, warmup_epochs=warmup(epochs)), {}),
    Row(
        "dgc 0.1 %, warm-up",
        lambda epochs: DGC(numpys, 0.001, warmup_epochs=warmup(epochs)),
        {60: 97.9},
    ),
    Row("dgc 0.1 %, no warm-up", lambda epochs: DGC(numpys, 0.001), {}),
    Row(
        "dgc 0.1 %, warm-up, no masking",
        lambda epochs: DGC(numpys, 0.001, warmup_epochs=warmup(epochs), masking=False),
        {},
    ),
    Row("powersgd rank 1", lambda epochs: PowerSGD(numpys, 1), {}),
    Row("powersgd rank 2", lambda epochs: PowerSGD(numpys, 2), {6: 97.4}),
    Row("powersgd rank 4", lambda epochs: PowerSGD(numpys, 4), {}),
    Row("int8", lambda epochs: codecs.int8(numpys), {}),
    Row("fp8", lambda epochs: codecs.fp8(numpys), {}),
    Row("qsgd 7 levels", lambda epochs: codecs.qsgd(numpys, 7), {}),
    Row("ternary, clip 2.5", lambda epochs: codecs.ternary(numpys, 2.5), {60: 98.4}),
    Row("sign", lambda epochs: codecs.sign(numpys), {}),
)


class Network:
    """Its forward and backward pass, in numpy."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.parameters = []
        for inputs, outputs in zip(LAYERS, LAYERS[1:], strict=False):
            spread = math.sqrt(2.0 / inputs)
            self.parameters.append(
                (random.standard_normal((inputs, outputs)) * spread).astype(np.float32)
            )
            self.parameters.append(np.zeros(outputs, np.float32))

    def _layers(self, x: Array) -> list[Array]:
        """What goes into each layer, and what comes out at the end."""
        values = [x]
        for number in range(0, len(self.parameters), 2):
            x = x @ self.parameters[number] + self.parameters[number + 1]
            if number + 2 < len(self.parameters):
                x = np.maximum(x, 0.0)
            values.append(x)
        return values

    def gradients(self, x: Array, labels: Array) -> list[Array]:
        values = self._layers(x)
        scores = values[-1] - values[-1].max(axis=1, keepdims=True)
        shares = np.exp(scores)
        shares /= shares.sum(axis=1, keepdims=True)
        shares[np.arange(len(labels)), labels] -= 1.0
        slope = shares / len(labels)
        found: list[Array] = []
        for number in reversed(range(0, len(self.parameters), 2)):
            inputs = values[number // 2]
            found = [inputs.T @ slope, slope.sum(axis=0), *found]
            slope = (slope @ self.parameters[number].T) * (inputs > 0)
        return found

    def accuracy(self, x: Array, labels: Array) -> float:
        return float((self._layers(x)[-1].argmax(axis=1) == labels).mean() * 100.0)


class Wire:
    """The ranks' rounds, in one process; counts what one rank sends."""

    def __init__(self) -> None:
        self.sent = 0
        self._count = 0

    def mean(self, ways: Sequence[Any]) -> tuple[Array, list[Any]]:
        """The mean of all ranks' tensors, and their new states."""
        answers: list[Any] = [None] * len(ways)
        while True:
            asked, results = [], []
            for way, answer in zip(ways, answers, strict=True):
                try:
                    asked.append(way.send(answer))
                except StopIteration as end:
                    results.append(end.value)
            if results:
                return results[0][0] / len(ways), [state for _, state in results]
            if isinstance(asked[0], Encoded):
                answers = self._encoded(asked)
            elif isinstance(asked[0], Sum):
                self.sent += asked[0].array.nbytes
                answers = [sum(each.array for each in asked)] * len(ways)
            else:
                assert isinstance(asked[0], Gather)
                self.sent += sum(array.nbytes for array in asked[0].arrays)
                rows = zip(*(each.arrays for each in asked), strict=True)
                answers = [[np.stack(row) for row in rows]] * len(ways)

    def _encoded(self, asked: Sequence[Encoded]) -> list[Any]:
        """As the core does it by owners, who have a share of the tensor each."""
        self._count += 1
        shares = np.array_split(np.arange(asked[0].array.size), len(asked))
        exact = [a.array if a.residual is None else a.array + a.residual for a in asked]
        own = [self._coded(each, f"{self._count}.{i}") for i, each in enumerate(asked)]
        total = np.zeros_like(exact[0])
        for rank, (decoded, _) in enumerate(own):
            decoded[shares[rank]] = exact[rank][shares[rank]]  # stays where it is
            total += decoded
        whole = asked[0]._replace(array=total, residual=np.zeros_like(total))
        result, lost = self._coded(whole, f"{self._count}.sum")
        for rank, (_, residual) in enumerate(own):
            if residual is not None:
                residual[shares[rank]] = lost[shares[rank]]
        # Each rank sends its contribution to the owners, and its share of the sum to the others.
        number, _ = engine.codecs()[asked[0].codec]
        self.sent += hvd._core.encoded_bytes(number, asked[0].parameter, total.size)
        return [(result.copy(), residual) for _, residual in own]

    def _coded(self, asked: Encoded, name: str) -> Any:
        """Through the codec and back; a job of one rank does just that."""
        total, residual = run_now(ask_encoded(ALGEBRA, Call(ALLREDUCE, name), asked))
        return total.array, residual


def train(row: Row, epochs: int, seed: int) -> tuple[float, float]:
    """The accuracy in per cent, and how many times fewer bytes were sent."""
    images, labels = load_digits(return_X_y=True)
    x = (images / 16.0).astype(np.float32)
    order = np.random.default_rng(100).permutation(len(x))
    learn, test = order[:-TEST], order[-TEST:]
    network = Network(seed)
    methods = [row.make(epochs) for _ in range(WORKERS)]
    velocity = [np.zeros_like(parameter) for parameter in network.parameters]
    momentum = 0.0 if methods[0] is not None and methods[0].momentum else MOMENTUM
    wire, plain = Wire(), 0
    per_epoch = len(learn) // (WORKERS * BATCH)
    random = np.random.default_rng(seed)
    for epoch in range(epochs):
        for method in methods:
            if method is not None:
                method.on_epoch(epoch)
        shuffled = random.permutation(learn)
        for step in range(per_epoch):
            progress = (epoch * per_epoch + step) / (epochs * per_epoch)
            rate = RATE * 0.5 * (1.0 + math.cos(math.pi * progress))
            batches = shuffled[step * WORKERS * BATCH :][: WORKERS * BATCH].reshape(WORKERS, BATCH)
            gradients = [network.gradients(x[rows], labels[rows]) for rows in batches]
            for number, parameter in enumerate(network.parameters):
                mean = _exchanged(methods, wire, str(number), [g[number] for g in gradients])
                plain += parameter.nbytes
                velocity[number] = momentum * velocity[number] + mean
                parameter -= rate * velocity[number]
    return network.accuracy(x[test], labels[test]), plain / wire.sent


def _exchanged(
    methods: Sequence[Method | None], wire: Wire, name: str, gradients: Sequence[Array]
) -> Array:
    shape = gradients[0].shape
    ways = []
    for method, gradient in zip(methods, gradients, strict=True):
        flat = ALGEBRA.flat(gradient)
        part = DENSE if method is None else method.part(name, shape)
        state = {} if method is None else method.state_of(name, flat, shape, len(methods))
        ways.append(rounds_of(part, ALGEBRA, flat, state, len(methods)))
    mean, states = wire.mean(ways)
    for method, state in zip(methods, states, strict=True):
        if method is not None:
            method.keep(name, state)
    return mean.reshape(shape)


def page(results: dict[str, Any]) -> str:
    lines = [
        "# Accuracy with compressed gradients",
        "",
        "<!-- Written by benchmarks/compressors.py from docs/benchmarks/data/compression.json. -->",
        "",
        "A network of 64-256-256-10 learns scikit-learn's digits: 4 workers with 16 samples each.",
        "SGD has momentum 0.9 and a learning rate of 0.1 that falls as a cosine.",
        f"The table has the mean of {results['seeds']} seeds, and their standard deviation.",
        "One image of the 360 in the test is 0.28 points.",
        "*Fewer bytes* counts what a rank sends in the whole run, with warm-up and dense biases.",
        "",
        "The workers are simulated in one process, over the code that the frameworks run.",
        "One small task shows that the methods work. It says little about large models.",
        "",
        "```sh",
        "python benchmarks/compressors.py",
        "```",
        "",
        "| method | 60 epochs | fewer bytes | 6 epochs | fewer bytes |",
        "|---|---|---|---|---|",
    ]
    for name, by_epochs in results["rows"].items():
        cells = []
        for epochs in ("60", "6"):
            accuracies = by_epochs[epochs]["accuracy"]
            spread = statistics.stdev(accuracies) if len(accuracies) > 1 else 0.0
            cells += [
                f"{statistics.mean(accuracies):.2f} ({spread:.2f})",
                f"{by_epochs[epochs]['ratio']:.1f}",
            ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="the rows whose names contain this")
    parser.add_argument("--quick", action="store_true", help="one seed; writes nothing")
    options = parser.parse_args()
    seeds = 1 if options.quick else 5
    os.environ["HVDLITE_ALLOW_SINGLETON"] = "1"
    hvd.init()
    figures = DOCS / "data" / "compression.json"
    known = json.loads(figures.read_text())["rows"] if figures.exists() else {}
    results: dict[str, Any] = {"seeds": seeds, "rows": known}
    missed = []
    for row in [row for row in ROWS if options.only in row.name]:
        for epochs in (60, 6):
            runs = [train(row, epochs, seed) for seed in range(seeds)]
            accuracies = [accuracy for accuracy, _ in runs]
            results["rows"].setdefault(row.name, {})[str(epochs)] = {
                "accuracy": accuracies,
                "ratio": runs[0][1],
            }
            mean, goal = statistics.mean(accuracies), row.goals.get(epochs)
            print(f"{row.name:32} {epochs:3} epochs: {mean:.2f}  {runs[0][1]:.1f}x", flush=True)
            if goal is not None and mean < goal:
                missed.append(f"{row.name} at {epochs} epochs: {mean:.2f}, the goal is {goal}")
    if not options.quick:
        figures.write_text(json.dumps(results, indent=1) + "\n")
        (DOCS / "compression.md").write_text(page(results))
    for line in missed:
        print(line)


if __name__ == "__main__":
    main()
