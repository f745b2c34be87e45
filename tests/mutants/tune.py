"""Faults of csrc/engine/tune: autotuning."""

from __future__ import annotations

from mutants.mutant import Mutant

_NOISE = "C++ Noise/TunerNoise.if_the_default_is_best_the_whole_job_loses_two_percent_at_most/*"

MUTANTS = (
    Mutant(
        "AT1",
        "csrc/engine/tune/duel.cc",
        "if (mean() - kSure * error > 0 && mean() > worthwhile)",
        "if (mean() > worthwhile)",
        "a challenger wins by chance",
        (_NOISE,),
    ),
    Mutant(
        "AT2",
        "csrc/engine/tune/tuner.cc",
        "    credit_ -= costs_[move_];\n",
        "",
        "settings that are slower are tried again and again",
        (_NOISE,),
    ),
    Mutant(
        "AT3",
        "csrc/engine/tune/tuner.cc",
        "if (champions && RegimeChanges(log_score)) {",
        "if (champions && RegimeChanges(log_score) && false) {",
        "a change of regime is not noticed",
        ("C++ Tuner.a_change_of_regime_begins_a_new_search",),
    ),
    Mutant(
        "AT4",
        "csrc/engine/tune/meter.h",
        "    if (submitted < since_) return false;\n",
        "",
        "operations of the setting before count for the one that is measured",
        ("C++ Meter.what_was_submitted_before_the_sample_belongs_to_none",),
    ),
    Mutant(
        "AT5",
        "csrc/engine/tune/setting.cc",
        "if (notch < range.lowest || notch > range.highest) return false;",
        "if (notch < range.lowest) return false;",
        "a damaged message sets a dial beyond its range",
        ("C++ Setting.numbers_that_no_rank_sends_are_refused",),
    ),
    Mutant(
        "AT6",
        "csrc/engine/tune/saved.cc",
        "if (theirs.ranks != shape.ranks || theirs.hosts != shape.hosts) {",
        "if (theirs.hosts != shape.hosts) {",
        "a job begins with the result of a job of another size",
        ("C++ Saved.is_read_by_a_job_of_the_same_size",),
    ),
)
