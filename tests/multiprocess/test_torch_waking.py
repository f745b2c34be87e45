"""hvdlite.torch's optimizers do not wake the background thread where no processor is spare
(HVDLITE_OVERLAP=off): the thread that waits in step() carries out what the hooks have submitted."""

from __future__ import annotations

import pytest
from bare_ranks import Ranks
from installed import needs_installed

needs_installed("torch")

_TRAINING = """
import torch, hvdlite.torch as torch_hvd
torch.set_num_threads(1)
hvd.init()

class Net(torch.nn.Module):
    def __init__(self, sparse):
        super().__init__()
        self.words = torch.nn.Embedding(10, 8, sparse=sparse)
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(10)))
    def forward(self, numbers):
        return self.layers(self.words(numbers)).sum()

fp16 = torch_hvd.Compression.fp16
WAYS = {
    "plain": (False, dict()),
    "compressed": (False, dict(compression=fp16)),
    "in groups": (False, dict(groups=4)),
    "in groups, compressed": (False, dict(groups=4, compression=fp16)),
    "two passes": (False, dict(backward_passes_per_step=2)),
    "sparse": (True, dict()),
    "sparse as dense": (True, dict(sparse_as_dense=True)),
    "Adasum": (False, dict(op=torch_hvd.Adasum)),
}

def trainers():
    # The name of each way, and two functions that make a step: the backward passes, and the rest.
    for way, (sparse, options) in WAYS.items():
        torch.manual_seed(0)
        net = Net(sparse)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.001)
        optimizer = torch_hvd.DistributedOptimizer(optimizer, net.named_parameters(), **options)
        def backward():
            optimizer.zero_grad()
            for _ in range(options.get("backward_passes_per_step", 1)):
                net(torch.tensor([RANK, 3, 3])).backward()
        yield way, backward, optimizer.step

def wakes():
    return hvd.metrics()["background_wakes"]
"""

# Counted where the gradients are submitted. What step() exchanges beside them may wake the thread
# while another rank is late.
_NO_WAKE = """
def woken_in(work):
    before = wakes()
    work()
    return wakes() - before

for way, backward, step in trainers():
    woken = 0
    for _ in range(5):
        by_backward, by_step = woken_in(backward), woken_in(step)
        woken += by_step if way == "Adasum" else by_backward
    tell(way=way, wakes=woken)
"""

# The thread is not at its gate in every step: it may still be on its way there.
_WAKES = """
for way, backward, step in trainers():
    before, woken = wakes(), 0
    while woken < SIZE:
        time.sleep(0.002)  # poll
        backward()
        step()
        woken = hvd.allreduce(np.array([wakes() > before], np.int32), op=hvd.Sum)[0]
"""


@pytest.mark.costly
@pytest.mark.watchdog(120)
def test_no_gradient_wakes_a_thread_where_no_processor_is_spare(two_ranks: Ranks) -> None:
    two_ranks.all_end_well(_TRAINING + _NO_WAKE, seconds=60, HVDLITE_OVERLAP="off")
    for rank in range(2):
        told = {line["way"]: line["wakes"] for line in two_ranks.told(rank)}
        assert len(told) == 8 and set(told.values()) == {0}, told


@pytest.mark.costly
@pytest.mark.watchdog(120)
def test_gradients_are_reduced_in_the_background_where_a_processor_is_spare(
    two_ranks: Ranks,
) -> None:
    two_ranks.all_end_well(_TRAINING + _WAKES, seconds=60, HVDLITE_OVERLAP="on")
