"""optimize(): a study whose objective runs on all ranks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from optuna import Study
from optuna.exceptions import TrialPruned

from hvdlite.core import engine
from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.optuna.exchange import Exchange
from hvdlite.optuna.trial import Trial

Objective = Callable[[Trial], float | Sequence[float]]

_NEXT = "the next trial"


def optimize(
    study: Study | None,
    objective: Objective,
    n_trials: int | None = None,
    timeout: float | None = None,
    catch: Iterable[type[Exception]] | type[Exception] = (),
    callbacks: Iterable[Callable[..., None]] | None = None,
    gc_after_trial: bool = False,
    show_progress_bar: bool = False,
    *,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Optuna's `study.optimize()` with an objective that all ranks of the process set call.

    All of them call this. The first rank passes a study; the other ranks' study and other arguments
    do not matter, besides the objective. The objective gets a `hvdlite.optuna.Trial`. The value
    that it returns on the first rank counts. If it raises an error on one rank, all ranks end the
    trial with that error.
    """
    exchange = Exchange(process_set)
    if not exchange.is_first:
        while exchange.by_first(_NEXT, lambda: None).values[0]:
            with contextlib.suppress(Exception):  # the study decides whether the next trial comes
                _on_this_rank(objective, Trial(None, process_set))
        return

    def on_all_ranks(trial: Any) -> Any:
        exchange.by_first(_NEXT, lambda: True)
        return _on_this_rank(objective, Trial(trial, process_set))

    def run_study() -> bool:
        if not isinstance(study, Study):
            raise TypeError(f"rank {exchange.ranks[0]} has to pass a study, not {study!r}")
        study.optimize(
            on_all_ranks,
            n_trials=n_trials,
            timeout=timeout,
            catch=catch,
            callbacks=callbacks,
            gc_after_trial=gc_after_trial,
            show_progress_bar=show_progress_bar,
        )
        return False

    exchange.by_first(_NEXT, run_study)


def _on_this_rank(objective: Objective, trial: Trial) -> Any:
    """Returns the first rank's value, or raises the error on which the ranks agree."""
    own: Exception | None = None
    try:
        value = objective(trial)
        over = trial.over or trial.exchange.end(value)
    except Exception as error:
        own = error
        over = trial.over or trial.exchange.fail(error, isinstance(error, TrialPruned))
    if over.failure is None:
        return over.values[0]
    raise own if own and over.failure.rank == engine.rank() else over.failure.error()
