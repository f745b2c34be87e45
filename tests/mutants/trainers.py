"""Faults of the strategy of Lightning and of Optuna's trials."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults("""
LO1: a decision to prune hides another rank's error
hvdlite/optuna/agreement.py
- (errors or failures)[0]
+ failures[0]
test_optuna_agreement.py::test_what_the_ranks_do

LO2: the error of a rank is no error of the study
hvdlite/optuna/study.py
- raise own if own and over.failure.rank == engine.rank() else over.failure.error()
+ return 0.0
test_optuna.py::test_all_ranks_have_one_trial

LO3: all ranks train on the part of the data of rank 0
hvdlite/lightning/strategy.py
- "rank": place.global_rank()
+ "rank": 0
test_lightning.py::test_losses_are_gloos
""")
