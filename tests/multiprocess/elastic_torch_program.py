"""What the ranks of test_elastic_equivalence train: plan.json says how, and who dies where.

All that a step depends on follows from the seed, the position and the rank.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import torch

import hvdlite.torch as hvd

PLAN = json.loads(Path("plan.json").read_text())
PHASES = {position: size for position, size in PLAN["phases"]}
torch.set_default_dtype(getattr(torch, PLAN["dtype"]))
torch.set_num_threads(1)
hvd.init()

torch.manual_seed(PLAN["seed"])
INPUTS, LABELS = torch.randn(PLAN["cursor"]["length"], 16), torch.randn(PLAN["cursor"]["length"], 1)
model = torch.nn.Sequential(
    torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Dropout(PLAN["dropout"]),
    torch.nn.Linear(32, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1),
)  # fmt: skip
# A newcomer that begins with other weights has to receive them.
for parameter in model.parameters():
    parameter.data += int(os.environ["HVDLITE_MEMBER_MEETS"] == "0")
optimizer = hvd.DistributedOptimizer(
    getattr(torch.optim, PLAN["optimizer"])(model.parameters(), **PLAN["options"]),
    named_parameters=model.named_parameters(),
)
cursor = hvd.elastic.Cursor(**PLAN["cursor"])
state = hvd.elastic.TorchState(model, optimizer, cursor=cursor, position=0, losses=[])


def at(place: str) -> None:
    """The end of this process, if the plan has it here. Each is done once, when there is the file
    that the plan names."""
    for position, where, ranks in PLAN["kills"]:
        if (position, where) == (state.position, place) and hvd.rank() in ranks:
            try:
                Path(f"kill.{position}.{hvd.rank()}").touch(exist_ok=False)
            except FileExistsError:
                continue
            while not os.path.exists(PLAN.get("dies_behind", "plan.json")):
                time.sleep(0.001)  # poll
            os.kill(os.getpid(), signal.SIGKILL)


model[0].register_full_backward_hook(lambda *_: at("backward"))
optimizer.register_step_pre_hook(lambda *_: at("update"))
check_host_updates = state.check_host_updates


def inside() -> None:
    """The boundary is counted, and the ranks are about to agree on it."""
    at("inside")
    check_host_updates()


state.check_host_updates = inside


def change_size(size: int) -> None:
    """Not before the slots of the dead are filled: a slot that goes may have the only survivor."""
    named = hvd.broadcast_object(Path("hosts").read_text(), root_rank=0)
    if named != f"localhost:{size}\n":
        wait_for_size(int(named.partition(":")[2]))
        if hvd.rank() == 0:
            Path("hosts.new").write_text(f"localhost:{size}\n")
            os.replace("hosts.new", "hosts")
    wait_for_size(size)


def wait_for_size(size: int) -> None:
    """The same number of calls on all ranks: position and size are the same."""
    while hvd.size() != size:
        time.sleep(0.001)  # poll
        check_host_updates()


def step(indices: Any) -> None:
    at("begin")
    torch.manual_seed((PLAN["seed"] * 10**6 + state.position) * 64 + hvd.rank())
    optimizer.zero_grad()
    output = model(INPUTS[torch.as_tensor(indices)])
    loss = (output - LABELS[torch.as_tensor(indices)]).square().mean() * cursor.weight
    of_all = hvd.allreduce(loss.detach(), name="loss")
    at("between")
    loss.backward()
    optimizer.step()
    state.losses.append(of_all.item().hex())
    state.position += 1
    state.step()
    at("after")


@hvd.elastic.run
def train(state: Any) -> None:
    while state.position < PLAN["steps"]:
        for indices in cursor:
            if state.position in PHASES:
                change_size(PHASES[state.position])
            step(indices)
            if state.position == PLAN["steps"]:
                break


MEMBER = hvd.elastic.member()
Path(f"pid.new.{MEMBER}").write_text(str(os.getpid()))
os.replace(f"pid.new.{MEMBER}", f"pid.{MEMBER}")
train(state)
weights = [value.double().reshape(-1) for value in model.state_dict().values()]
moments = [
    value.double().reshape(-1)
    for state_of_one in optimizer.state_dict()["state"].values()
    for value in state_of_one.values()
    if isinstance(value, torch.Tensor)
]
said = {
    "weights": [value.hex() for value in torch.cat(weights).tolist()],
    "moments": [value.hex() for value in torch.cat(moments).tolist()],
    "losses": state.losses,
}
Path(f"end.{hvd.rank()}").write_text(json.dumps(said))
Path(f"generations.{hvd.rank()}").write_text(str(hvd.elastic.generation()))
