"""A rank of benchmarks/elastic inside a trainer: dies where the plan says so, and notes its steps.

    elastic_trainers.py ddp|lightning|transformers|keras PLAN
    elastic_trainers.py gloo|hvdlite PLAN        torch's enable_reconfigure, by hand

PLAN is a file of JSON, and beside it lie the ranks' notes. Of each job with all its ranks one dies
after `steps` steps, until there were `deaths`. By hand there is one death.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from elastic_plan import FOLDER, PLAN, die, die_if_due, note, over

WAY = sys.argv[1]
WIDTH, LAYERS, BATCH, STEPS_OF_AN_EPOCH = 256, 4, 4, 40  # 1 MB


class Watch:
    """Of the steps since the ranks became others."""

    def __init__(self) -> None:
        self.size = self.steps = 0

    def before_a_step(self, rank: int, size: int, generation: int) -> None:
        if size != self.size:
            self.size, self.steps = size, 0
        die_if_due(generation, rank, size, self.steps)

    def after_a_step(self) -> None:
        self.steps += 1
        note("step", size=self.size)

    def is_over(self) -> bool:
        return over() and self.size == PLAN["ranks"] and self.steps >= 5


watch = Watch()


def torchs_net() -> Any:
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    return torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)))


def samples() -> Any:
    import torch

    return torch.ones(STEPS_OF_AN_EPOCH * BATCH * PLAN["ranks"], WIDTH)


def ddp() -> None:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, TensorDataset

    import hvdlite.torch as hvd
    import hvdlite.torch.distributed

    hvdlite.torch.distributed.init()
    model = DistributedDataParallel(torchs_net())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    loader = DataLoader(TensorDataset(samples()), batch_size=BATCH)
    going = hvd.elastic.going_on(model, optimizer, loader)
    for _ in going.epochs(1_000_000):
        for (x,) in going.loader:
            watch.before_a_step(dist.get_rank(), dist.get_world_size(), hvd.elastic.generation())
            optimizer.zero_grad()
            model(x).sum().backward()
            burnt = going.turn.is_burnt
            optimizer.step()
            if not burnt:
                watch.after_a_step()
        over = torch.tensor(float(watch.is_over()))
        dist.all_reduce(over)
        if over:
            break


def lightning() -> None:
    import logging
    import warnings

    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    import hvdlite.lightning
    import hvdlite.torch as hvd
    from hvdlite.lightning.packages import preferred

    pl = importlib.import_module(preferred())

    class Model(pl.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = torchs_net()

        def training_step(self, batch: Any, number: int) -> Any:
            watch.before_a_step(hvd.rank(), hvd.size(), hvd.elastic.generation())
            return self.net(batch[0]).sum()

        def on_train_batch_end(self, *_: Any) -> None:
            if not self.trainer.strategy._training.going.turn.is_burnt:
                watch.after_a_step()

        def on_train_epoch_end(self) -> None:
            over = torch.tensor(float(watch.is_over()))
            self.trainer.should_stop = bool(self.trainer.strategy.reduce(over, reduce_op="max"))

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-5)

    trainer = pl.Trainer(
        strategy=hvdlite.lightning.HvdliteStrategy(elastic=True), max_epochs=1_000_000,
        accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False,
    )  # fmt: skip
    trainer.fit(Model(), DataLoader(TensorDataset(samples()), batch_size=BATCH))


def transformers() -> None:
    import torch
    from transformers import Trainer, TrainerCallback, TrainingArguments

    import hvdlite.torch as hvd
    import hvdlite.torch.distributed
    import hvdlite.transformers

    hvdlite.torch.distributed.init()

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = torchs_net()

        def forward(self, x: Any, **_: Any) -> dict[str, Any]:
            watch.before_a_step(hvd.rank(), hvd.size(), hvd.elastic.generation())
            return {"loss": self.net(x).sum()}

    class Notes(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            watch.after_a_step()

        def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            over = torch.tensor(float(watch.is_over()))
            torch.distributed.all_reduce(over)
            control.should_training_stop = bool(over)
            return control

    arguments = TrainingArguments(
        str(FOLDER / "saved"), num_train_epochs=100_000, per_device_train_batch_size=BATCH,
        learning_rate=1e-5, save_strategy="no", logging_strategy="no", use_cpu=True, report_to=[],
        disable_tqdm=True, dataloader_pin_memory=False, remove_unused_columns=False,
    )  # fmt: skip
    trainer = Trainer(
        Model(), arguments, train_dataset=[{"x": x} for x in samples()], callbacks=[Notes()]
    )
    hvdlite.transformers.elastic(trainer)
    trainer.train()


def keras() -> None:
    if os.environ["KERAS_BACKEND"] != "tensorflow":
        sys.modules["tensorflow"] = None  # type: ignore[assignment]  # which Keras would load
    import keras
    import numpy as np

    import hvdlite.keras as hvd

    hvd.init()
    net = keras.Sequential(
        [keras.Input((WIDTH,)), *(keras.layers.Dense(WIDTH, use_bias=False) for _ in range(LAYERS))]
    )
    net.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(1e-5)), "mse")

    class Notes(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            watch.before_a_step(hvd.rank(), hvd.size(), hvd.elastic.generation())

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            watch.after_a_step()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            over = hvd.allreduce(np.array([float(watch.is_over())]), op=hvd.Sum)
            self.model.stop_training = bool(over[0])

    x = np.ones((STEPS_OF_AN_EPOCH * BATCH * PLAN["ranks"], WIDTH), np.float32)
    hvd.elastic.fit(net, x, x, batch_size=BATCH, epochs=1_000_000, verbose=0, callbacks=[Notes()])


def by_hand(backend: str) -> None:
    """torch 2.14's enable_reconfigure. The handles go through files; who is alive is told by the
    plan."""
    import torch
    import torch.distributed as dist

    rank, ranks = PLAN["rank"], PLAN["ranks"]
    how: dict[str, Any] = {"enable_reconfigure": True}
    store = dist.FileStore(str(FOLDER / "store"), ranks)
    dist.init_process_group(
        backend, rank=rank, world_size=ranks, store=store, timeout=timedelta(seconds=60), **how
    )

    def meet(turn: int, alive: list[int]) -> None:
        new = FOLDER / f"handle-{turn}-{rank}.new"
        new.write_text(dist._get_reconfigure_handle())
        new.rename(new.with_suffix(".there"))
        paths = [FOLDER / f"handle-{turn}-{each}.there" for each in alive]
        while not all(path.exists() for path in paths):
            time.sleep(0.001)
        dist._reconfigure(turn, [path.read_text() for path in paths]).wait()

    parameter = torch.ones(LAYERS * WIDTH * WIDTH)
    alive = list(range(ranks))
    meet(1, alive)
    while watch.steps < 2 * PLAN["steps"]:
        if len(alive) == ranks and watch.steps == PLAN["steps"] and rank == PLAN["dies"]:
            die(size=ranks)
        watch.size = len(alive)
        try:
            dist.all_reduce(parameter)
        except RuntimeError:
            alive.remove(PLAN["dies"])
            meet(2, alive)
            continue
        watch.after_a_step()
    with contextlib.suppress(RuntimeError):
        dist.destroy_process_group()


WAYS: dict[str, Callable[[], None]] = {
    "ddp": ddp, "lightning": lightning, "transformers": transformers, "keras": keras,
}  # fmt: skip

if __name__ == "__main__":
    if WAY in WAYS:
        WAYS[WAY]()
    else:
        by_hand(WAY)
