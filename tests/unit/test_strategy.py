"""hvd.Strategy: what may be said, what does not go together, and what is printed."""

from __future__ import annotations

import inspect
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hvdlite.adapter.local.outer import OuterSGD
from hvdlite.adapter.strategy import Strategy, options
from hvdlite.adapter.strategy.options import KNOWN

DGC = {"name": "dgc", "density": 0.01}
STRATEGIES: list[tuple[dict[str, Any], str, str]] = [
    # what is said, the object in Python, and in words
    ({}, "Strategy()", "Each step reduces the gradients of all ranks."),
    ({"compression": "none", "sufficient_factors": False}, "Strategy()",
     "Each step reduces the gradients of all ranks."),
    ({"compression": "int8"}, "Strategy(compression='int8')",
     "Each step reduces the gradients of all ranks. They travel by int8(error_feedback=True)."),
    ({"compression": DGC | {"warmup_epochs": 4}, "backward_passes_per_step": 4},
     "Strategy(compression={'name': 'dgc', 'density': 0.01, 'warmup_epochs': 4}, "
     "backward_passes_per_step=4)",
     "Each step reduces the gradients of all ranks, added up over 4 backward passes. They travel "
     "by dgc(density=0.01, momentum=0.9, warmup_epochs=4)."),
    ({"compression": {"name": "fp16"}}, "Strategy(compression='fp16')",
     "Each step reduces the gradients of all ranks. They travel by fp16."),
    ({"sufficient_factors": "auto"}, "Strategy(sufficient_factors='auto')",
     "Each step reduces the gradients of all ranks. Linear layers send the factors of their "
     "gradients where these are fewer bytes."),
    ({"sufficient_factors": True}, "Strategy(sufficient_factors=True)",
     "Each step reduces the gradients of all ranks. Linear layers send the factors of their "
     "gradients."),
    ({"large_batch": {"name": "lars", "trust": 0.02}},
     "Strategy(large_batch={'name': 'lars', 'trust': 0.02})",
     "Each step reduces the gradients of all ranks. LARS takes the place of SGD with trust=0.02."),
    ({"large_batch": "lamb"}, "Strategy(large_batch='lamb')",
     "Each step reduces the gradients of all ranks. LAMB takes the place of Adam."),
    ({"local": {"every": 16, "start": 100, "momentum": "average", "adaptive": True}},
     "Strategy(local={'name': 'local_sgd', 'every': 16, 'start': 100, 'momentum': 'average', "
     "'adaptive': True})",
     "Ranks make steps of their own and average their weights every 16 steps. The first 100 steps "
     "are synchronous. The interval shrinks with the loss. Momentum is averaged, too."),
    ({"local": {"every": "10s"}}, "Strategy(local={'name': 'local_sgd', 'every': '10s'})",
     "Ranks make steps of their own and average their weights every 10s."),
    ({"local": {"name": "diloco", "outer": {"lr": 0.5}, "fragments": 4, "overlap": 5,
                "momentum": "reset"}},
     "Strategy(local={'name': 'diloco', 'outer': {'lr': 0.5, 'momentum': 0.9, 'nesterov': True}, "
     "'fragments': 4, 'overlap': 5, 'momentum': 'reset'})",
     "Ranks make steps of their own; every 500 steps, OuterSGD(lr=0.5, momentum=0.9, "
     "nesterov=True) makes a step with the average of what they have changed. The model travels "
     "in 4 fragments. An average is applied 5 steps after it was started. Momentum begins anew "
     "behind each average."),
    ({"compression": {"name": "auto", "candidates": ["bf16", {"name": "sign", "skip": "*.w"}]}},
     "Strategy(compression={'name': 'auto', 'candidates': [{'name': 'bf16'}, {'name': 'sign', "
     "'error_feedback': True, 'skip': '*.w'}]})",
     "Each step reduces the gradients of all ranks. They travel by auto(a cast to bfloat16, "
     "sign(error_feedback=True))."),
]  # fmt: skip


@pytest.mark.parametrize(("said", "shown", "words"), STRATEGIES, ids=[s[1] for s in STRATEGIES])
def test_a_strategy_is_shown_said_and_read_again(
    said: dict[str, Any], shown: str, words: str
) -> None:
    strategy = Strategy.from_dict(said)
    assert repr(strategy) == shown and strategy.describe() == words
    again = [Strategy(**said), eval(shown), Strategy.from_dict(strategy.to_dict()),
             pickle.loads(pickle.dumps(strategy))]  # fmt: skip
    assert all(each == strategy and hash(each) == hash(strategy) for each in again)


def test_a_dictionary_has_all_options() -> None:
    """A record of a run must not change with the defaults."""
    strategy = Strategy(compression="dgc", local=None)
    assert strategy.to_dict() == {
        "compression": {
            "name": "dgc", "density": 0.001, "momentum": 0.9, "nesterov": False, "clip": None,
            "warmup_epochs": 0, "masking": True, "skip": [],
        },
        "local": None,
        "large_batch": None,
        "sufficient_factors": None,
        "backward_passes_per_step": 1,
    }  # fmt: skip


def test_strategies_are_equal_if_they_mean_the_same() -> None:
    default = Strategy(compression={"name": "dgc", "density": 0.001})
    assert Strategy(compression="dgc") == default
    assert Strategy(compression=DGC) != default
    outer = Strategy(local={"name": "diloco", "outer": OuterSGD()})
    assert outer == Strategy(local="diloco")
    more = replace(default, backward_passes_per_step=2)
    assert more == Strategy(compression="dgc", backward_passes_per_step=2)
    with pytest.raises(ValueError, match="local: there is no 'dgc'"):
        Strategy(local=default.compression)


REFUSED: list[tuple[dict[str, Any], str]] = [
    # names: the nearest one, and all
    ({"compresion": "int8"}, "a strategy has no part 'compresion'. Did you mean 'compression'? "
     "Known: compression, local, large_batch, sufficient_factors, backward_passes_per_step."),
    ({"compression": "int4"}, "compression: there is no 'int4'. Did you mean 'int8'? Known: fp16"),
    ({"compression": {"name": "dgc", "densty": 1}},
     "compression: dgc has no option 'densty'. Did you mean 'density'? Known: density, momentum"),
    ({"compression": {"name": "fp16", "density": 1}}, "compression: fp16 has no option 'density'"),
    ({"local": {"every": 4, "fragments": 2}}, "local: local_sgd has no option 'fragments'"),
    ({"local": {"name": "diloco", "outer": {"rate": 1}}},
     "local.outer: OuterSGD has no option 'rate'. Known: lr, momentum, nesterov."),
    ({"large_batch": "larz"}, "large_batch: there is no 'larz'. Did you mean 'lars'?"),
    # what is missing
    ({"compression": "threshold"}, "compression.t is missing: threshold needs it"),
    ({"local": {"start": 3}}, "local.every is missing: local_sgd needs it"),
    ({"compression": {"density": 0.1}}, "compression: expected a name such as 'fp16', or a map"),
    # types
    ({"compression": object()}, "compression: expected a name such as 'fp16', or a mapping with "),
    ({"compression": DGC | {"density": "x"}}, "compression.density: expected a number, found 'x'"),
    ({"compression": DGC | {"masking": 1}},
     "compression.masking: expected true or false, found 1"),
    ({"compression": DGC | {"clip": "x"}},
     "compression.clip: expected a number, or nothing, found 'x'"),
    ({"compression": DGC | {"skip": [3]}},
     "compression.skip: expected a pattern of names, or a list of them, found [3]"),
    ({"compression": {"name": "powersgd", "rank": 1.5}},
     "compression.rank: expected a whole number, found 1.5"),
    ({"compression": {"name": "auto", "candidates": "int8"}},
     "compression.candidates: expected a list of compressions, found 'int8'"),
    ({"compression": {"name": "auto", "candidates": ["bf16", {"name": "topk", "density": []}]}},
     "compression.candidates[1].density: expected a number, found []"),
    ({"local": {"every": 1.5}},
     "local.every: expected a whole number, or a time such as '10s', found 1.5"),
    ({"local": {"every": 4, "momentum": True}}, "local.momentum: expected a text, found True"),
    ({"local": {"name": "diloco", "outer": 0.7}},
     "local.outer: expected the options of hvd.OuterSGD, such as {lr: 0.7}, found 0.7"),
    ({"local": {"name": "diloco", "outer": {"lr": True}}},
     "local.outer.lr: expected a number, found True"),
    ({"backward_passes_per_step": "2"}, "backward_passes_per_step: expected a whole number"),
    # values: the sentences of what takes them
    ({"compression": DGC | {"density": 0}},
     "compression.density: density=0 is not possible: it must be above 0 and at most 1"),
    ({"compression": {"name": "powersgd", "rank": 0}}, "compression.rank: rank=0 is not possible"),
    ({"compression": {"name": "threshold", "t": -1}}, "compression.t: t=-1 is not possible"),
    ({"compression": {"name": "auto", "candidates": ["dgc"]}},
     "compression: dgc(density=0.001, momentum=0.9) carries the momentum of all tensors"),
    ({"local": {"every": 0}}, "local.every: every=0 is not possible"),
    ({"local": {"every": "soon"}}, "local.every: every='soon' is no time"),
    ({"local": {"every": 4, "momentum": "reset"}},
     "local.momentum: momentum='reset' is not possible: expected 'local' or 'average'"),
    ({"local": {"name": "diloco", "every": 4, "fragments": 8}}, "local.fragments: fragments=8"),
    ({"local": {"name": "diloco", "momentum": "average"}},
     "local.momentum: momentum='average' is not possible: expected 'local' or 'reset'"),
    ({"large_batch": {"name": "lars", "trust": 0}}, "large_batch.trust: trust=0 is not possible"),
    ({"sufficient_factors": "never"},
     "sufficient_factors='never' is not possible: expected True, False or 'auto'"),
    ({"backward_passes_per_step": 0}, "backward_passes_per_step must be 1 or more"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "error"), REFUSED, ids=[error[:50] for _, error in REFUSED])
def test_what_is_wrong_is_refused_with_the_path_of_the_key(
    said: dict[str, Any], error: str
) -> None:
    with pytest.raises(ValueError) as raised:
        Strategy.from_dict(said)
    assert str(raised.value).startswith(error)


LOCAL = {"every": 4}
TOGETHER: list[tuple[dict[str, Any], str]] = [
    # what goes together
    ({"compression": "int8", "backward_passes_per_step": 2}, ""),
    ({"compression": "sign", "large_batch": "lamb"}, ""),
    ({"sufficient_factors": "auto", "large_batch": "lars"}, ""),
    ({"large_batch": "lars", "backward_passes_per_step": 8}, ""),
    # and what does not
    ({"local": LOCAL, "compression": "int8"}, "compressions are for gradients, and local steps"),
    ({"local": LOCAL, "sufficient_factors": "auto"}, "factors are a way of gradients"),
    ({"local": "diloco", "large_batch": "lars"}, "a local step has the gradient of one rank"),
    ({"local": LOCAL, "backward_passes_per_step": 2}, "adding passes up saves nothing"),
    ({"sufficient_factors": True, "compression": "fp16"},
     "sufficient_factors is not possible with a cast to float16: a compression sends a part"),
    ({"sufficient_factors": "auto", "backward_passes_per_step": 2},
     "sufficient_factors is not possible with backward_passes_per_step=2: the factors of one"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "reason"), TOGETHER, ids=[str(said) for said, _ in TOGETHER])
def test_parts_that_do_not_go_together_are_refused_with_the_reason(
    said: dict[str, Any], reason: str
) -> None:
    if not reason:
        Strategy(**said)
        return
    with pytest.raises(ValueError) as raised:
        Strategy(**said)
    assert reason in str(raised.value)


def test_every_option_that_may_be_chosen_has_a_type_that_is_checked() -> None:
    """A new compression is a part of strategies at once; an option of a new type is noticed."""
    annotations = {
        parameter.annotation
        for known in KNOWN.values()
        for function in known.values()
        for parameter in inspect.signature(function).parameters.values()
    }
    assert annotations <= {*options._TYPES, *options._DEEPER}


# ---- YAML

TEXT = """
compression:
  name: dgc
  density: 1e-3      # YAML 1.1 has no number like this
  skip: ["*.embedding.*"]
local: null
backward_passes_per_step: 2
"""
READ = Strategy(
    compression={"name": "dgc", "density": 0.001, "skip": ["*.embedding.*"]},
    backward_passes_per_step=2,
)


def test_a_file_and_its_text_give_the_same_strategy(tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="PyYAML is not installed")
    path = tmp_path / "strategy.yml"
    path.write_text(TEXT)
    for given in (path, str(path), TEXT):
        assert Strategy.from_yaml(given) == READ
    assert Strategy.from_yaml("local: {every: 10s}") == Strategy(local={"every": "10s"})
    path.write_text("")
    assert Strategy.from_yaml(path) == Strategy()


def test_an_error_in_a_file_names_the_file_and_the_key(tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="PyYAML is not installed")
    path = tmp_path / "strategy.yml"
    for text, error in (
        ("compression: {name: dgc, density: 2}", f"{path}: compression.density: density=2 is not"),
        ("[int8]", f"{path}: expected a mapping such as {{'compression': 'int8'}}, found ['int8']"),
        ("compression: {", f"{path} is not YAML: "),
    ):
        path.write_text(text)
        with pytest.raises(ValueError) as raised:
            Strategy.from_yaml(path)
        assert str(raised.value).startswith(error)
    with pytest.raises(ValueError, match="the text: local: there is no 'no'"):
        Strategy.from_yaml("local: 'no'\n")
    with pytest.raises(FileNotFoundError):
        Strategy.from_yaml(tmp_path / "none.yml")


def test_a_missing_pyyaml_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ImportError, match="needs PyYAML: pip install pyyaml"):
        Strategy.from_yaml("compression: int8")
