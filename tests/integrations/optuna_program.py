"""Ranks with Optuna: `python optuna_program.py CHECK...` prints each check that they come
through."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import optuna

import hvdlite as hvd
import hvdlite.optuna
from hvdlite.optuna import Trial, optimize

optuna.logging.set_verbosity(optuna.logging.ERROR)


class OfThisProgram(Exception):
    """An error whose class the other ranks know by its name."""


def study(**how: Any) -> optuna.Study | None:
    """On rank 0."""
    how.setdefault("sampler", optuna.samplers.TPESampler(seed=1, n_startup_trials=3))
    return optuna.create_study(**how) if hvd.rank() == 0 else None


def states(of: optuna.Study | None) -> list[str]:
    """On all ranks."""
    told = [trial.state.name for trial in of.trials] if of else None
    return list(hvd.broadcast_object(told))


def equal(value: Any) -> Any:
    """The value, which all ranks have."""
    first, *others = hvd.allgather_object(value)
    assert all(other == first for other in others), (first, others)
    return value


def parameters_and_values() -> None:
    seen = []

    def objective(trial: Trial) -> float:
        rate = trial.suggest_float("rate", 1e-5, 1e-1, log=True)
        width = trial.suggest_int("width", 1, 64)
        kind = trial.suggest_categorical("kind", ["a", None, 3.5, True])
        equal(trial.suggest_float("stepped", 0, 1, step=0.1))
        equal(trial.suggest_uniform("uniform", 0, 1))
        trial.set_user_attr("rank", hvd.rank())
        assert trial.user_attrs == {"rank": 0}
        assert trial.params["rate"] == rate and trial.params["width"] == width
        equal((trial.number, trial.params, trial.distributions, trial.datetime_start))
        seen.append(equal((rate, width, kind)))
        return rate + width + hvd.rank()

    first = study()
    optimize(first, objective, 8)
    assert len(seen) == 8 and states(first) == ["COMPLETE"] * 8
    if first:  # doubles have travelled as doubles
        got = [(t.params["rate"], t.params["width"], t.params["kind"]) for t in first.trials]
        assert got == seen
        assert [t.value for t in first.trials] == [rate + width for rate, width, _ in seen]


def pruning() -> None:
    ends = []

    def objective(trial: Trial) -> float:
        height = trial.suggest_float("height", 0, 1)
        for step in range(5):
            # The ranks' mean is the height of the trial.
            mine = height + (1 if hvd.rank() == 0 else -1 / (hvd.size() - 1))
            trial.report(mine, step, reduce="mean")
            if trial.should_prune():
                ends.append("pruned")
                raise optuna.TrialPruned
        ends.append("complete")
        return height

    first = study(pruner=optuna.pruners.MedianPruner(n_startup_trials=2))
    optimize(first, objective, 8)
    equal(ends)
    assert "pruned" in ends and "complete" in ends
    assert [state.lower() for state in states(first)] == ends
    if first:
        for trial in first.trials:
            reported = list(trial.intermediate_values.values())
            np.testing.assert_allclose(reported, [trial.params["height"]] * len(reported))


def errors_of_the_first_rank() -> None:
    def objective(trial: Trial) -> float:
        try:
            trial.suggest_float("x", 1, 0)
        except ValueError as error:
            equal(str(error))
        else:
            raise AssertionError
        trial.suggest_int("x", 0, 1)
        return 1.0

    first = study()
    optimize(first, objective, 2)
    assert states(first) == ["COMPLETE"] * 2


def errors_of_one_rank() -> None:
    last = hvd.size() - 1
    caught = []

    def objective(trial: Trial) -> float:
        trial.suggest_int("x", 0, 1)
        if hvd.rank() == last and trial.number == 1:
            raise OfThisProgram(f"on rank {hvd.rank()}")
        try:
            trial.report(1.0, 0)  # meets the end of the rank that has failed
        except OfThisProgram as error:
            caught.append(str(error))
            raise
        return 1.0

    first = study()
    optimize(first, objective, 3, catch=OfThisProgram)
    assert states(first) == ["COMPLETE", "FAIL", "COMPLETE"]
    assert caught == ([] if hvd.rank() == last else [f"on rank {last}"])

    again = study()
    try:
        optimize(again, objective, 3)
    except OfThisProgram as error:
        assert str(error) == f"on rank {last}"
    else:
        raise AssertionError
    assert states(again) == ["COMPLETE", "FAIL"]


def different_calls() -> None:
    def objective(trial: Trial) -> float:
        trial.suggest_int("a" if hvd.rank() == 0 else "b", 0, 1)
        return 1.0

    first = study()
    try:
        optimize(first, objective, 3)
    except hvd.MismatchError as error:
        assert "rank 0 is at suggest_int('a'), and rank 1 is at suggest_int('b')" in str(error)
    else:
        raise AssertionError
    assert states(first) == ["FAIL"]


def ask_and_tell() -> None:
    first = study()
    asked = first.ask() if first else None
    trial = Trial(asked)
    equal(trial.suggest_float("x", 0, 1))
    if first:
        first.tell(asked, 1.0)
    for wrong in (None, optuna.trial.FixedTrial({})):
        try:
            Trial(wrong)
        except ValueError as error:
            assert "rank 0 has to pass its trial" in str(error), error
        else:
            raise AssertionError


def arguments() -> None:
    try:
        optimize(None, lambda trial: 1.0, 1)
    except TypeError as error:
        assert "rank 0 has to pass a study" in str(error)
    else:
        raise AssertionError


def studies_side_by_side() -> None:
    """Each rank is a process set, and all take trials of one study, in a file."""
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    mine = hvd.add_process_set([hvd.rank()], name="study")
    storage = JournalStorage(JournalFileBackend("journal.log"))
    own = optuna.create_study(storage=storage, study_name="shared", load_if_exists=True)
    numbers = []

    def objective(trial: Trial) -> float:
        numbers.append(trial.number)
        return trial.suggest_float("x", 0, 1)

    optimize(own, objective, 4, process_set=mine)
    everything = [number for each in hvd.allgather_object(numbers) for number in each]
    assert sorted(everything) == list(range(4 * hvd.size()))
    assert len(own.trials) == 4 * hvd.size()


def a_rank_fails_while_others_wait() -> None:
    """For HVDLITE_STALL_CHECK_TIME_SECONDS; then the job ends with its error."""

    def objective(trial: Trial) -> float:
        if hvd.rank() == 1:
            raise OfThisProgram("too large")
        hvd.allreduce(np.ones(1))
        return 1.0

    began = time.monotonic()
    first = study()
    try:
        optimize(first, objective, 2, catch=OfThisProgram)
    except hvd.HorovodInternalError as error:
        assert "rank 1 raised OfThisProgram: too large" in str(error), error
    else:
        raise AssertionError
    if first:
        assert [trial.state.name for trial in first.trials] == ["FAIL"]
    Path(f"ended.{hvd.rank()}").write_text(str(time.monotonic() - began))
    os.write(1, b"a_rank_fails_while_others_wait\n")
    os._exit(0)


if __name__ == "__main__":
    hvd.init()
    for name in sys.argv[1:]:
        globals()[name]()
        hvd.barrier()
        os.write(1, f"{name}\n".encode())
    hvd.shutdown()
