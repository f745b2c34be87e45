"""Optuna looks for a learning rate and a width, and all ranks train each trial's model together.

hvdliterun -np 2 python examples/optuna_digits.py

With --studies the ranks are divided into that many process sets. Each of them takes trials of the
same study, which is a file.
"""

import argparse
import os
import tempfile

import numpy as np
import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from sklearn.datasets import load_digits

import hvdlite as hvd
import hvdlite.optuna

DIGITS = load_digits()
ORDER = np.random.default_rng(0).permutation(len(DIGITS.target))
TRAIN, TEST = ORDER[:1437], ORDER[1437:]


def forward(weights, images):
    hidden = np.maximum(images @ weights[0], 0)
    scores = np.exp(hidden @ weights[1])
    return hidden, scores / scores.sum(axis=1, keepdims=True)


def gradients(weights, images, labels):
    hidden, chances = forward(weights, images)
    chances[np.arange(len(labels)), labels] -= 1
    to_hidden = (chances @ weights[1].T) * (hidden > 0)
    return [images.T @ to_hidden / len(labels), hidden.T @ chances / len(labels)]


def train(trial, ranks):
    """The objective: all ranks of the process set call it with the same trial."""
    rate = trial.suggest_float("rate", 1e-3, 1.0, log=True)
    width = trial.suggest_int("width", 8, 64, log=True)
    random = np.random.default_rng(0)
    weights = [random.standard_normal(shape) * 0.1 for shape in ((64, width), (width, 10))]
    mine = TRAIN[ranks.rank() :: ranks.size()]
    for epoch in range(4):
        for batch in np.array_split(mine, 20):
            found = gradients(weights, DIGITS.data[batch] / 16, DIGITS.target[batch])
            for weight, gradient in zip(weights, found, strict=True):
                weight -= rate * hvd.allreduce(gradient, process_set=ranks)
        accuracy = (
            forward(weights, DIGITS.data[TEST] / 16)[1].argmax(1) == DIGITS.target[TEST]
        ).mean()
        trial.report(accuracy, epoch)
        if trial.should_prune():
            raise optuna.TrialPruned
    return accuracy


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=10, help="of each process set")
    parser.add_argument(
        "--studies", type=int, default=1, help="process sets that work side by side"
    )
    args = parser.parse_args()

    hvd.init()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    number = hvd.rank() % args.studies
    ranks = hvd.add_process_set(range(number, hvd.size(), args.studies), name="trials")
    folder = tempfile.TemporaryDirectory() if hvd.rank() == 0 else None
    path = hvd.broadcast_object(folder and os.path.join(folder.name, "journal.log"))
    study = None
    if ranks.rank() == 0:
        study = optuna.create_study(
            study_name="digits",
            storage=JournalStorage(JournalFileBackend(path)),
            sampler=optuna.samplers.TPESampler(seed=number),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=3),
            direction="maximize",
            load_if_exists=True,
        )
    hvdlite.optuna.optimize(
        study, lambda trial: train(trial, ranks), args.trials, process_set=ranks
    )
    hvd.barrier()
    if hvd.rank() == 0:
        done = [trial.state.name for trial in study.trials]
        print(
            f"{hvd.size()} ranks, {len(done)} trials, {done.count('PRUNED')} pruned, "
            f"best accuracy {study.best_value:.3f} with {study.best_params}",
            flush=True,
        )
    hvd.shutdown()


if __name__ == "__main__":
    main()
