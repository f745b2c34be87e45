"""Optimizers for large batches: LARS and LAMB, hvdlite's or the framework's."""

from __future__ import annotations

from checks import check
from checks.api import Run
from checks.here import Here
from checks.runs import close, gradients, mean_gradients, same_everywhere


@check(optimizer=("lars", "lamb"), seconds=60)
def norms_are_those_of_the_reduced_gradient(here: Here, optimizer: str) -> None:
    make = getattr(Run, optimizer)
    for mode in Run.modes_of_conditions:
        run = Run(make(0.5), mode=mode, widest=True)
        run.train(gradients(here.rank, 5))
        alone = Run(make(0.5), "", mode=mode, widest=True)
        alone.train(mean_gradients(here, 5))
        close(run.weights(), alone.weights(), 2 * Run.tolerance)
        same_everywhere(here, run.weights())
