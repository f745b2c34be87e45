"""Finds what a data-parallel program needs as a whole, and what is missing in programs that train
on each rank alone.

It looks at all files of a program together, because the model may be in one and the loop in
another.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from hvdlite.tools.doctor.findings import Finding, Kind
from hvdlite.tools.doctor.reading import Program, last_name

_ADAPTERS = ("horovod.torch", "horovod.tensorflow", "horovod.keras")
_WRAPPERS = {
    "DistributedOptimizer", "PartialDistributedOptimizer", "DistributedGradientTape",
    "PartialDistributedGradientTape", "ddp_comm_hook", "load_model",
}  # fmt: skip
#: names by which a wrapper is recognised that is called through an object, such as self.hvd
_WRAPPERS_BY_NAME = _WRAPPERS - {"load_model"}
_STARTS = re.compile(
    r"[Bb]roadcast_?(parameters|variables|global_?variables|optimizer_state|object)", re.IGNORECASE
)
_SHARDING = {
    "DistributedSampler", "ElasticSampler", "shard", "num_replicas", "num_shards", "shard_index",
    "split_list",
}  # fmt: skip
#: what averages gradients in a program of torch.distributed, over hvdlite's backend
_BY_OTHERS = {
    "DistributedDataParallel", "DDP", "Accelerator", "FullyShardedDataParallel", "fully_shard",
    "init_process_group",
}  # fmt: skip
#: functions that make data where they are called; with the same seed, the same on each rank
_RANDOM = {"rand", "randn", "randint", "normal", "standard_normal", "uniform"}
_READERS = {"DataLoader", "Dataset", "from_tensor_slices", "load_data", "fit", "load_digits"}
_SEEDS_OF_WEIGHTS = {"manual_seed", "set_seed", "set_random_seed", "seed_everything"}
_SEEDS = _SEEDS_OF_WEIGHTS | {"seed", "default_rng"}


def of_programs(programs: Sequence[Program]) -> Iterator[Finding]:
    """Returns hints; none unless the programs use one of the adapters."""
    uses = [(p.file, use) for p in programs for use in p.uses if use.path.startswith(_ADAPTERS)]
    if not uses:
        return
    file, first = uses[0]
    used = {use.path.rpartition(".")[2] for _, use in uses}
    words = {word for program in programs for word in _words(program.tree)}

    def hint(name: str, sentence: str) -> Finding:
        return Finding(Kind.HINT, file, first.line, name, sentence)

    wrapped = used & _WRAPPERS or words & _WRAPPERS_BY_NAME
    if "init" not in used and used & (
        _WRAPPERS | {"rank", "size", "local_rank", "allreduce", "broadcast", "allgather"}
    ):
        yield hint(
            "hvd.init", "is not called in these files: call it before everything else of hvd"
        )
    by_hand = any("allreduce" in name for name in used)
    if _trains(words) and not wrapped and not by_hand and not words & _BY_OTHERS:
        yield hint(
            "hvd.DistributedOptimizer",
            "no optimizer or tape is wrapped in these files, so each rank trains a model of "
            "its own",
        )
    if not wrapped:
        return
    if (
        not any(_STARTS.match(word) for word in used | words)
        and not any(use.path.endswith(("State", "elastic.fit")) for _, use in uses)
        and not any(_seeds_all_alike(program.tree) for program in programs)
    ):
        yield hint(
            "hvd.broadcast_parameters",
            "nothing is broadcast in these files, so ranks may begin with different weights: use "
            "hvd.broadcast_parameters (torch), hvd.broadcast_variables (TensorFlow) or "
            "hvd.callbacks.BroadcastGlobalVariablesCallback (Keras)",
        )
    users = [p for p in programs if any(use.path.startswith(_ADAPTERS) for use in p.uses)]
    larger = ", although the batch of all ranks together is that much larger: is this intended?"
    own_data = "does each rank read data of its own?"
    if not any(map(_starts_by_itself, users)):
        own_data = "a library may leave that to its caller"
        larger = f": {own_data}"
    if (
        not all(program.is_hvdlites for program in users)
        and not any(_scales_by_size(program) for program in programs)
        and "LearningRateWarmupCallback" not in used
    ):
        yield hint("learning rate", f"is not multiplied by hvd.size(){larger}")
    if (
        not words & _SHARDING
        and not any(_computes_with_rank(program) for program in programs)
        and (words & _SEEDS or not any(_makes_data(program.tree) for program in programs))
    ):
        yield hint(
            "data",
            "these files have no DistributedSampler, no shard(), and no part of the data chosen by "
            f"hvd.rank(): {own_data}",
        )


def _starts_by_itself(program: Program) -> bool:
    """Whether the file does something when Python runs it, besides defining."""
    return any(
        isinstance(statement, (ast.For, ast.While, ast.With))
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call))
        or (isinstance(statement, ast.If) and "__name__" in _words(statement.test))
        for statement in program.tree.body
    )


def _seeds_all_alike(tree: ast.AST) -> bool:
    """Whether a seed is set that is the same on all ranks: their models are equal by it."""
    calls = [
        n for n in ast.walk(tree) if isinstance(n, ast.Call) and last_name(n) in _SEEDS_OF_WEIGHTS
    ]
    return any(
        isinstance(call.args[0], ast.Constant) or "seed" in last_name(call.args[0])
        for call in calls
        if call.args
    )


def _makes_data(tree: ast.AST) -> bool:
    """Whether a loop that trains draws random numbers, or a program that reads no data."""
    loops = [_words(node) for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While))]
    if any(_trains(words) and words & _RANDOM for words in loops):
        return True
    # The numbers within a class may be weights.
    outside = [n for n in ast.iter_child_nodes(tree) if not isinstance(n, ast.ClassDef)]
    random = set().union(*(_words(node) for node in outside)) & _RANDOM
    return bool(random) and not _words(tree) & _READERS


def _words(tree: ast.AST) -> set[str]:
    """Returns every identifier."""
    nodes = list(ast.walk(tree))
    found = {last_name(node) for node in nodes}
    found |= {node.arg or "" for node in nodes if isinstance(node, ast.keyword)}
    found |= {node.name.rpartition(".")[2] for node in nodes if isinstance(node, ast.alias)}
    return found - {""}


def _trains(words: set[str]) -> bool:
    return {"backward", "step"} <= words or bool(words & {"apply_gradients", "minimize", "fit"})


def _scales_by_size(program: Program) -> bool:
    """Whether hvd.size() or local_size(), or a variable with its value, is a factor of a
    product."""
    products = [
        n
        for n in ast.walk(program.tree)
        if isinstance(n, (ast.BinOp, ast.AugAssign)) and isinstance(n.op, ast.Mult)
    ]
    return _any_holds(program, products, {"size", "local_size"})


def _computes_with_rank(program: Program) -> bool:
    """Whether hvd.rank() is used for more than comparing it with 0 or printing it."""
    kinds = (ast.BinOp, ast.Subscript, ast.Slice, ast.keyword, ast.Call)
    places = [n for n in ast.walk(program.tree) if isinstance(n, kinds)]
    return _any_holds(program, [n for n in places if last_name(n) != "print"], {"rank"})


def _any_holds(program: Program, nodes: Sequence[ast.AST], functions: set[str]) -> bool:
    """Whether one of the nodes has a child that calls one of these functions, or that is named
    after its result."""
    calls = {id(call.node) for call in program.calls if call.path.rpartition(".")[2] in functions}
    holders = set()
    for node in ast.walk(program.tree):
        if isinstance(node, ast.Assign) and id(node.value) in calls:
            holders |= {last_name(target) for target in node.targets}
        elif isinstance(node, ast.FunctionDef):
            results = [inside.value for inside in ast.walk(node) if isinstance(inside, ast.Return)]
            if any(id(result) in calls for result in results):
                holders.add(node.name)
    children = (child for node in nodes for child in ast.iter_child_nodes(node))
    return any(id(child) in calls or last_name(child) in holders - {""} for child in children)
