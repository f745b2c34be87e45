"""Memory that an operation works on stays until the operation is done, whatever has become of the
program's own hold on it."""

from __future__ import annotations

import pytest
from bare_ranks import Ranks
from installed import needs_installed

# `interrupted` runs what cannot end, because rank 1 has not asked for it yet, and interrupts it
# when it waits.
_TOOLS = """
import gc, weakref
from hvdlite import _core
class FromHandler(Exception): pass
def handler(number, frame): raise FromHandler
signal.signal(signal.SIGUSR1, handler)
def interrupted(work, number=signal.SIGINT):
    def press():
        wait_until_inside()
        os.kill(os.getpid(), number)
    threading.Thread(target=press, daemon=True).start()
    try: work()
    except (KeyboardInterrupt, FromHandler): return
    assert False, "not interrupted"
def soon(condition):
    end = time.monotonic() + within(30)
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)  # poll
"""

_ONE = "hvd.allreduce_(x, op=hvd.Sum, name='x')"
_GROUP = "hvd.grouped_allreduce_([x], op=hvd.Sum, name='x')"
_HANDLE = "hvd.allreduce_async_(x, op=hvd.Sum, name='x')"
_NATIVE = "_core.submit(0, hvd.Sum, 0, 'x', x, x, 0, 1.0, 1.0, [], False)"

# What rank 0 does, and what rank 1 must do to end it.
_WAYS = {
    "a handle that nobody knows": (_NATIVE, _ONE),
    "Ctrl-C": (f"interrupted(lambda: {_ONE})", _ONE),
    "Ctrl-C in a group": (f"interrupted(lambda: {_GROUP})", _GROUP),
    "Ctrl-C in synchronize": (f"interrupted(lambda: hvd.synchronize({_HANDLE}))", _ONE),
    "Ctrl-C in a list": (f"interrupted(lambda: _core.wait_all([{_NATIVE}]))", _ONE),
    "a handler's exception": (f"interrupted(lambda: {_ONE}, signal.SIGUSR1)", _ONE),
    "a handler's exception in a group": (f"interrupted(lambda: {_GROUP}, signal.SIGUSR1)", _GROUP),
    "a handler's exception in synchronize": (
        f"interrupted(lambda: hvd.synchronize({_HANDLE}), signal.SIGUSR1)",
        _ONE,
    ),
}


@pytest.mark.parametrize("way", _WAYS)
def test_memory_stays_when_the_wait_for_it_has_ended(two_ranks: Ranks, way: str) -> None:
    first, second = _WAYS[way]
    two_ranks.all_end_well(
        f"{_TOOLS}hvd.init()\n"
        "x = np.ones(100_000, np.float32); seen = weakref.ref(x)\n"
        "if RANK == 0:\n"
        f"    {first}\n"
        "    del x; gc.collect()\n"
        "    assert seen() is not None, 'freed, and the engine works on it'\n"
        "    flag('go')\n"
        "    soon(lambda: (seen() == 2).all())\n"
        "else:\n"
        "    wait_flag('go')\n"
        f"    {second}\n"
        "    del x\n"
        "hvd.barrier(); hvd.shutdown(); gc.collect()\n"
        "assert seen() is None, 'held for ever'\n"
    )


_ABANDONED = """
hvd.init()
net = torch.nn.Linear(300, 300, bias=False)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, net.named_parameters())
if RANK == 1: wait_flag({name!r})
net(torch.full((1, 300), 1.0 + 2 * RANK)).sum().backward()
seen = weakref.ref(net.weight.grad)
if RANK == 0:
    {way}
    gc.collect()
    assert seen() is not None, 'freed, and the engine works on it'
    flag({name!r})
soon(lambda: (seen() == 2).all())
hvd.barrier(); hvd.shutdown()
optimizer = net = None; gc.collect()
assert seen() is None, 'held for ever'
"""


@pytest.mark.costly
@pytest.mark.watchdog(200)
def test_gradients_stay_when_a_step_is_abandoned(two_ranks: Ranks) -> None:
    needs_installed("torch")
    ways = (
        "del optimizer, net",
        "optimizer.load_state_dict(optimizer.state_dict()); net.zero_grad()",
    )
    two_ranks.all_end_well(
        f"end_after(180)\n{_TOOLS}import torch, hvdlite.torch as hvd\n"
        + "".join(_ABANDONED.format(way=way, name=f"go.{i}") for i, way in enumerate(ways)),
        seconds=180,
    )


def test_an_operation_that_fails_gives_its_memory_back(two_ranks: Ranks) -> None:
    two_ranks.all_end_well(
        f"{_TOOLS}hvd.init()\n"
        "x = np.ones(10 + RANK); seen = weakref.ref(x)\n"
        "try: hvd.synchronize(hvd.allreduce_async_(x, name='x')); assert False\n"
        "except hvd.MismatchError: pass\n"
        "del x; gc.collect(); assert seen() is None\n"
    )


def test_memory_lent_by_a_temporary_is_held_until_the_operation_is_done(two_ranks: Ranks) -> None:
    two_ranks.all_end_well(
        "import gc, weakref\n"
        "class Array(np.ndarray): pass\n"
        "class Lender:\n"
        "    def __dlpack__(self, **kw):\n"
        "        self.seen = np.full(100_000, 1.0).view(Array)\n"
        "        seen, self.seen = self.seen, weakref.ref(self.seen)\n"
        "        return seen.__dlpack__(**kw)\n"
        "    def __dlpack_device__(self): return (1, 0)\n"
        "hvd.init()\n"
        "from hvdlite import _core\n"
        "lender = Lender()\n"
        "if RANK == 0:\n"
        "    handle = _core.submit(0, 1, 0, 'x', lender, None, 0, 1.0, 1.0, [], False)\n"
        "    gc.collect(); assert lender.seen() is not None\n"
        "    flag('go')\n"
        "    assert (_core.wait(handle)[0] == 2).all()\n"
        "    gc.collect(); assert lender.seen() is None\n"
        "else:\n"
        "    wait_flag('go')\n"
        "    assert (hvd.allreduce(np.full(100_000, 1.0), op=hvd.Sum, name='x') == 2).all()\n"
    )
