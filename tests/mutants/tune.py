"""Faults of csrc/engine/tune: autotuning."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults(r"""
AT1: a challenger wins by chance
csrc/engine/tune/duel.cc
- if (mean() - kSure * error > 0 && mean() > worthwhile)
+ if (mean() > worthwhile)
C++ Noise/TunerNoise.if_the_default_is_best_the_whole_job_loses_two_percent_at_most/*

AT2: settings that are slower are tried again and again
csrc/engine/tune/tuner.cc
-     credit_ -= costs_[move_];
C++ Noise/TunerNoise.if_the_default_is_best_the_whole_job_loses_two_percent_at_most/*

AT3: a change of regime is not noticed
csrc/engine/tune/tuner.cc
- if (champions && RegimeChanges(log_score)) {
+ if (champions && RegimeChanges(log_score) && false) {
C++ Tuner.a_change_of_regime_begins_a_new_search

AT4: operations of the setting before count for the one that is measured
csrc/engine/tune/meter.h
-     if (submitted < since_) return false;
C++ Meter.what_was_submitted_before_the_sample_belongs_to_none

AT5: a damaged message sets a dial beyond its range
csrc/engine/tune/setting.cc
- if (notch < range.lowest || notch > range.highest) return false;
+ if (notch < range.lowest) return false;
C++ Setting.numbers_that_no_rank_sends_are_refused

AT6: a job begins with the result of a job of another size
csrc/engine/tune/saved.cc
- if (theirs.ranks != shape.ranks || theirs.hosts != shape.hosts) {
+ if (theirs.hosts != shape.hosts) {
C++ Saved.is_read_by_a_job_of_the_same_size
""")
