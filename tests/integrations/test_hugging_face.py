"""Accelerate and Transformers' Trainer over the backend hvdlite of torch.distributed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from launched import ROOT, Job, prefixed
from tier import one_of

pytest.importorskip("accelerate", reason="Accelerate is not installed: pip install accelerate")
pytest.importorskip(
    "transformers", reason="Transformers is not installed: pip install transformers"
)

PROGRAM = str(Path(__file__).parent / "hugging_face_program.py")
EXAMPLES = {
    "accelerate_digits.py": r"2 ranks, accuracy 0\.9\d+",
    "transformers_tiny_bert.py": r"2 ranks, accuracy (0\.[89]\d+|1\.000)",
}
_TRAP = r".*this rank trains a model of its own.*"
_ADVICE = "Call hvdlite.torch.distributed.init() before the program makes an Accelerator or"


def run(job: Job, ranks: int, *checks: str) -> None:
    """Each rank comes through each check."""
    done = job.end_well("-np", str(ranks), "python", PROGRAM, *checks)
    said = done.stderr.decode()
    assert not re.search(_TRAP, said), said
    for rank in range(ranks):
        assert prefixed(done.stdout, rank)[-1:] == [checks[-1]], said
        assert set(checks) <= set(prefixed(done.stdout, rank)), said


@pytest.mark.costly
@pytest.mark.watchdog(120)
def test_losses_are_gloos(job: Job) -> None:
    run(job, 2, "accelerate", "transformers")


@pytest.mark.full
@pytest.mark.watchdog(200)
def test_losses_are_gloos_on_four_ranks(job: Job) -> None:
    run(job, 4, "accelerate", "transformers")


_ACCELERATE = """
import torch
from accelerate import Accelerator
accelerator = Accelerator()
model = torch.nn.Linear(2, 1)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
for _ in range(2):
    accelerator.backward(model(torch.ones(1, 2)).sum())
    optimizer.step()
"""
_TRAINER = """
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1,
    intermediate_size=8)
data = [{"input_ids": torch.tensor([1, 2]), "labels": 0}] * 4
arguments = TrainingArguments("out", max_steps=2, save_strategy="no", report_to=[])
Trainer(BertForSequenceClassification(config), arguments, train_dataset=data).train()
"""


@pytest.mark.full
@pytest.mark.watchdog(120)
@pytest.mark.parametrize("program", [_ACCELERATE, _TRAINER], ids=["accelerate", "trainer"])
def test_ranks_without_init_are_told_that_they_train_alone(job: Job, program: str) -> None:
    said = job.end_well("-np", "2", "python", job.script(program)).stderr.decode()
    (line,) = re.findall(_TRAP, said)
    assert _ADVICE in line, line


@pytest.mark.full
@pytest.mark.watchdog(150)
@pytest.mark.parametrize("name", one_of(tuple(EXAMPLES), "an example of Hugging Face"))
def test_the_examples_learn(job: Job, name: str) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    done = job.end_well("-np", "2", "python", str(ROOT / "examples" / name))
    said = done.stdout.decode()
    assert re.search(EXAMPLES[name], said), said


@pytest.mark.watchdog(120)
def test_a_program_for_torchrun_trains_one_model(job: Job) -> None:
    """On a machine without a GPU, too, where Accelerate looks for no group of its own accord."""
    tell = (
        'print("ranks", accelerator.num_processes, torch.distributed.get_backend(), flush=True)\n'
    )
    program = _ACCELERATE + tell + "torch.distributed.destroy_process_group()"
    done = job.end_well("--torch-distributed=hvdlite", "-np", "2", "python", "-c", program)
    assert not re.search(_TRAP, done.stderr.decode()), done.stderr.decode()
    for rank in range(2):
        assert prefixed(done.stdout, rank) == ["ranks 2 hvdlite"]
