"""hvd.OneBitAdam, where a framework has it."""

from __future__ import annotations

import numpy as np

from checks import check
from checks.api import Run, hvd
from checks.here import Here, raises
from checks.runs import SHAPES, gradients, same_everywhere


@check(min_ranks=2, seconds=60)
def onebit_adam_is_adam_until_it_freezes(here: Here) -> None:
    for mode in Run.modes_of_conditions:
        ours = Run(Run.onebit_adam(0.01, weight_decay=0.1, freeze_step=100), "", mode=mode)
        plain = Run(Run.adam(0.01, weight_decay=0.1), mode=mode)
        for run in (ours, plain):
            run.train(gradients(here.rank, 4))
        for key in SHAPES:
            np.testing.assert_allclose(ours.weights()[key], plain.weights()[key], atol=1e-6)
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
