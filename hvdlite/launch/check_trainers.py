"""What `hvdliterun --check-build` runs with libraries that train: one model on two ranks, or one
trial."""

from __future__ import annotations

_LIGHTNING = """
import importlib, logging, warnings
warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
import torch
import hvdlite.lightning
from hvdlite.lightning.packages import preferred
pl = importlib.import_module(preferred())
class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def training_step(self, batch, number):
        return self.layer(batch).sum()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
trainer = pl.Trainer(
    strategy=hvdlite.lightning.HvdliteStrategy(), fast_dev_run=1, logger=False,
    enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
)
trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(4, 2)))
assert trainer.world_size == 2 and torch.distributed.get_backend() == "hvdlite"
"""

_ACCELERATE = """
import torch, hvdlite.torch.distributed
hvdlite.torch.distributed.init()
from accelerate import Accelerator
accelerator = Accelerator()
total = accelerator.reduce(torch.ones(3, device=accelerator.device))
assert accelerator.num_processes == 2 == total[0].item(), total
"""

_TRANSFORMERS = """
import os, tempfile, torch, hvdlite.torch.distributed
os.environ["HF_HUB_OFFLINE"] = "1"
hvdlite.torch.distributed.init()
from transformers import Trainer, TrainingArguments
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def forward(self, numbers, labels=None):
        return {"loss": self.layer(numbers).sum()}
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, max_steps=1, report_to=[], save_strategy="no", disable_tqdm=True,
        logging_strategy="no", remove_unused_columns=False,
    )
    Trainer(Model(), arguments, train_dataset=[{"numbers": torch.ones(2)}] * 16).train()
assert arguments.world_size == 2 and torch.distributed.get_backend() == "hvdlite"
"""

_OPTUNA = """
import optuna, hvdlite as hvd, hvdlite.optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
hvd.init()
seen = []
study = optuna.create_study() if hvd.rank() == 0 else None
hvdlite.optuna.optimize(study, lambda trial: seen.append(trial.suggest_float("x", 0, 1)) or 1.0, 1)
first, second = hvd.allgather_object(seen)
assert first == second and len(first) == 1, (first, second)
"""

# Title, the module to look for, packages whose version is shown, program.
ROWS = (
    ("Lightning", "pytorch_lightning", ("lightning", "pytorch-lightning"), _LIGHTNING),
    ("Accelerate", "accelerate", ("accelerate",), _ACCELERATE),
    ("Transformers' Trainer", "transformers", ("transformers",), _TRANSFORMERS),
    ("Optuna", "optuna", ("optuna",), _OPTUNA),
)
