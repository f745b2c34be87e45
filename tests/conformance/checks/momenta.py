"""Compression and the momentum of an optimizer: who has it, and hvd.OneBitAdam."""

from __future__ import annotations

import numpy as np

from checks import check
from checks.api import Run, hvd
from checks.here import Here, raises
from checks.runs import SHAPES, close, gradients, same_everywhere


@check()
def momentum_beside_that_of_dgc_is_refused(here: Here) -> None:
    for inner, word in zip((Run.sgd(0.1, 0.9), Run.adam(0.1)), Run.momenta, strict=True):
        with raises(ValueError, f"the optimizer has {word}", "momentum would count twice"):
            Run(inner, compression=hvd.Compression.dgc())
    Run(Run.adam(0.1), compression=hvd.Compression.dgc(momentum=0.0))
    Run(Run.adam(0.1), compression=hvd.Compression.topk())


@check(min_ranks=2, seconds=60)
def onebit_adam_is_adam_until_it_freezes(here: Here) -> None:
    for mode in Run.modes_of_conditions:
        inner = Run.onebit_adam(0.01, weight_decay=0.1, freeze_step=100)
        ours = Run(inner, "", mode=mode, widest=True)
        plain = Run(Run.adam(0.01, weight_decay=0.1), mode=mode, widest=True)
        for run in (ours, plain):
            run.train(gradients(here.rank, 4))
        close(ours.weights(), plain.weights(), max(1e-7, Run.tolerance / 2))
        same_everywhere(here, ours.weights())


@check(min_ranks=2, seconds=60)
def onebit_adam_sends_signs_after_it_has_frozen(here: Here) -> None:
    for mode in Run.modes_of_conditions:
        run = Run(Run.onebit_adam(0.01, freeze_step=2), "", mode=mode)
        weights, squares = [run.weights()], []
        for step in range(5):
            before = hvd.metrics()["bytes_encoded"]
            run.train(gradients(here.rank, 1, step))
            assert (hvd.metrics()["bytes_encoded"] > before) == (step >= 2), step
            weights.append(run.weights())
            squares.append(run.moments(2))
        for key in SHAPES:
            np.testing.assert_array_equal(squares[1][key], squares[4][key])
            assert (weights[2][key] != weights[5][key]).any()
        same_everywhere(here, *weights)
    with raises(ValueError, "freeze_step=0"):
        Run(Run.onebit_adam(0.01, freeze_step=0), "")
