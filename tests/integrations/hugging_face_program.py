"""Ranks with Accelerate and Transformers: `python hugging_face_program.py TRAINING...` prints each
training that gives the same over hvdlite, over gloo and on all ranks."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
warnings.simplefilter("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from accelerate import Accelerator  # noqa: E402
from accelerate.state import AcceleratorState  # noqa: E402

import hvdlite.torch as hvd  # noqa: E402
import hvdlite.torch.distributed  # noqa: E402


def accelerate() -> Any:
    accelerator = Accelerator(gradient_accumulation_steps=2)
    assert accelerator.num_processes == hvd.size()
    assert accelerator.process_index == hvd.rank()
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    data = torch.utils.data.TensorDataset(torch.randn(30, 8))
    loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    assert isinstance(model, torch.nn.parallel.DistributedDataParallel)
    losses = []
    for _ in range(2):
        for (batch,) in loader:
            with accelerator.accumulate(model):
                loss = model(batch).square().mean()
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            every = accelerator.gather_for_metrics(loss.detach().reshape(1))
            losses.append(round(every.mean().item(), 6))
    accelerator.wait_for_everyone()
    assert accelerator.reduce(torch.ones(1)).item() == hvd.size()
    return losses


class Texts(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 40

    def __getitem__(self, number: int) -> dict[str, Any]:
        words = torch.randint(0, 50, (8,), generator=torch.Generator().manual_seed(number))
        mask = torch.ones(8, dtype=torch.long)
        return {"input_ids": words, "attention_mask": mask, "labels": int(words[0] > 25)}


def transformers() -> Any:
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, num_labels=2,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, num_train_epochs=2, per_device_train_batch_size=4, logging_steps=2,
            save_strategy="no", report_to=[], disable_tqdm=True, seed=3,
        )  # fmt: skip
        assert arguments.world_size == hvd.size()
        model = BertForSequenceClassification(config)
        trainer = Trainer(model, arguments, train_dataset=Texts(), eval_dataset=Texts())
        trainer.train()
        at_the_end = trainer.evaluate()["eval_loss"]
    assert trainer.state.global_step == 2 * -(-40 // (4 * hvd.size()))
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) >= 2
    return [round(float(loss), 6) for loss in losses], round(at_the_end, 6)


def over(backend: str) -> list[Any]:
    """What the trainings give over this backend."""
    hvdlite.torch.distributed.init(backend)
    assert dist.get_backend() == backend
    found = []
    for name in sys.argv[1:]:
        before = hvd.metrics()["operations"]
        found.append(globals()[name]())
        assert (hvd.metrics()["operations"] > before) == (backend == "hvdlite")
        AcceleratorState._reset_state(True)
    dist.destroy_process_group()
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    hvd.init()
    found = over("hvdlite")
    assert over("gloo") == found
    told = hvd.allgather_object(found)
    assert all(each == found for each in told), told
    for name in sys.argv[1:]:
        os.write(1, f"{name}\n".encode())
