"""Faults of the backend of torch.distributed."""

from __future__ import annotations

from mutants.mutant import Mutant

_FOLDER = "hvdlite/torch/distributed/"
_TESTS = "tests/multiprocess/test_torch_backend_programs.py::test_"
_COMPLETERS = "tests/unit/test_torch_completers.py::test_"
_DEATH = _TESTS + "a_killed_rank_is_an_error_of_its_peer_at_once"
_COLLECTIVES = _TESTS + "collectives_give_what_gloo_gives"
_DDP = _TESTS + "ddp_has_gloos_losses"

MUTANTS = (
    Mutant(
        "DB1",
        _FOLDER + "work.py",
        "            self._error = error\n",
        "            pass\n",
        "a tensor that is not reduced is given back without an error after a rank has died",
        (_DEATH,),
    ),
    Mutant(
        "DB2",
        _FOLDER + "work.py",
        "    if isinstance(value, Exception):\n        raise value\n",
        "",
        "C++ that waits for a future takes an error for a result",
        (_DEATH,),
    ),
    Mutant(
        "DB3",
        _FOLDER + "work.py",
        "        if task != self._task:\n",
        "        if self._task == -1:\n",
        "a bucket that an inner backward pass waits for is completed at the end of the outer one",
        (_COMPLETERS + "works_of_both_backward_passes_are_complete_when_the_inner_one_ends",),
    ),
    Mutant(
        "DB4",
        _FOLDER + "work.py",
        "    return frame is None or frame.f_code.co_name == _ENTRANCE\n",
        "    return True\n",
        "a hook of DDP that waits for its future within the backward pass waits for ever",
        (_COMPLETERS + "only_what_autograd_calls_for_a_complete_gradient_is_called_by_autograd",),
    ),
    Mutant(
        "DB5",
        _FOLDER + "group.py",
        "completer = self.by_backward if by_backward else self._by_thread",
        "completer = self._by_thread",
        "each bucket of DDP is completed by another thread",
        (_DDP,),
    ),
    Mutant(
        "DB6",
        _FOLDER + "tensors.py",
        "    return tensor.data\n\n\ndef moved",
        "    return tensor.detach()\n\n\ndef moved",
        "autograd refuses to use a tensor that was reduced, as it does not with gloo",
        (_COLLECTIVES,),
    ),
    Mutant(
        "DB7",
        _FOLDER + "backend.py",
        "        group.when_it_ends(leaves)\n",
        "        pass\n",
        "a process group that has ended leaves hvdlite's job behind",
        (_TESTS + "hvdliterun_with_torchs_variables",),
    ),
    Mutant(
        "DB8",
        _FOLDER + "group.py",
        "list(zip(*outputs, strict=True)), inputs, outputs)",
        "outputs, inputs, outputs)",
        "a coalesced gather puts each rank's tensors where its first one belongs",
        (_COLLECTIVES,),
    ),
    Mutant(
        "DB10",
        _FOLDER + "tensors.py",
        "each.data_ptr() == begin\n",
        "True\n",
        "a result is written behind the first output, wherever the others lie",
        (_COLLECTIVES,),
    ),
    Mutant(
        "DB9",
        "hvdlite/core/collectives.py",
        "        if call.in_place and len(hosts) > 1:\n",
        "        if False:\n",
        "a tensor that is twice in a group in place is reduced twice",
        (_COLLECTIVES,),
    ),
)
