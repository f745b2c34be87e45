"""train() of the Hugging Face Trainer in which ranks die: see test_hugging_face_in_place.py. A
process that comes to its end writes what it knows into end.MEMBER."""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "multiprocess"))
warnings.filterwarnings("ignore")

import dying  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from transformers import Trainer, TrainerCallback, TrainingArguments  # noqa: E402

import hvdlite.torch as hvd  # noqa: E402
import hvdlite.torch.distributed  # noqa: E402
import hvdlite.transformers  # noqa: E402

SAMPLES, CLASSES = 96, 4
ACCUMULATE = int(os.environ.get("ACCUMULATE", "1"))
EPOCHS, RANKS = int(os.environ.get("EPOCHS", "3")), int(os.environ.get("RANKS", "1"))

torch.set_num_threads(1)
hvdlite.torch.distributed.init()
generator = torch.Generator().manual_seed(1)
X = torch.randn(SAMPLES, 8, generator=generator)
Y = (X[:, :CLASSES] + 0.1 * torch.randn(SAMPLES, CLASSES, generator=generator)).argmax(1)
data = [{"x": x, "labels": y} for x, y in zip(X, Y, strict=True)]
sizes: list[int] = []
trainer: Any = None


def die(moment: str) -> None:
    dying.die(moment, hvd.rank(), trainer.state.global_step if trainer else 0)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(),
            torch.nn.Linear(16, CLASSES),
        )  # fmt: skip

    def forward(
        self, x: torch.Tensor, labels: torch.Tensor, num_items_in_batch: Any = None, **_: Any
    ) -> dict[str, torch.Tensor]:
        die("forward" if self.training else "evaluation")
        if self.training and (not sizes or sizes[-1] != hvd.size()):
            sizes.append(hvd.size())
        logits = self.net(x)
        if logits.requires_grad:
            logits.register_hook(lambda _: die("backward"))
        items = len(labels) if num_items_in_batch is None else int(num_items_in_batch)
        if self.training:  # also where a step is made again, with parts of another size
            assert items == ACCUMULATE * len(labels), (items, len(labels))
        loss = F.cross_entropy(logits, labels, reduction="sum") / items
        return {"loss": loss, "logits": logits}


class Watch(TrainerCallback):  # type: ignore[misc]
    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        die("gate")

    def on_optimizer_step(self, *_: Any, **__: Any) -> None:
        die("tail")

    def on_log(self, *_: Any, **__: Any) -> None:
        die("log")

    def on_save(self, *_: Any, **__: Any) -> None:
        die("saved")

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        die("epoch-end")
        lives = torch.tensor(float(dying.left()))
        torch.distributed.all_reduce(lives)
        enough = state.global_step >= EPOCHS * args.epoch_steps and hvd.size() >= RANKS
        control.should_training_stop = enough and not lives
        return control


arguments = TrainingArguments(
    "saved", num_train_epochs=100_000, per_device_train_batch_size=4, learning_rate=0.02,
    per_device_eval_batch_size=16, eval_strategy="epoch", save_strategy="epoch", logging_steps=3,
    save_total_limit=1, use_cpu=True, report_to=[], disable_tqdm=True, dataloader_pin_memory=False,
    lr_scheduler_type="constant", seed=0,
    gradient_accumulation_steps=ACCUMULATE, average_tokens_across_devices=False,
)  # fmt: skip
arguments.epoch_steps = int(os.environ.get("STEPS", "8"))
trainer = Trainer(
    Model(), arguments, train_dataset=data, eval_dataset=data, callbacks=[Watch()],
    compute_metrics=lambda found: {
        "accuracy": float((np.argmax(found.predictions, 1) == found.label_ids).mean())
    },
)  # fmt: skip
hvdlite.transformers.elastic(trainer)
trainer.train()
accuracies = [
    line["eval_accuracy"] for line in trainer.state.log_history if "eval_accuracy" in line
]
weights = torch.cat([p.detach().flatten() for p in trainer.model.parameters()])
with open(f"end.{hvd.elastic.member()}", "w") as file:
    json.dump(
        {
            "place": [hvd.rank(), hvd.size()], "steps": trainer.state.global_step, "sizes": sizes,
            "schedule": trainer.lr_scheduler.last_epoch, "pid": os.getpid(),
            "weights": weights.tolist(),
            "accuracy": accuracies[-1],
        },
        file,
    )  # fmt: skip
