"""portion, the reducescatter under another name: so its shapes and its exchange are there already,
and the recipe's places about them stay as they are."""

from __future__ import annotations

from recipes import Insert, Limits, Several

_NUMPY = "hvdlite/core/arrays/ops.py"
_GRADIENTS = "hvdlite/core/gradients.py"
_TORCH = "hvdlite/torch/ops.py"
_TENSORFLOW = "hvdlite/tensorflow/ops.py"
_JAX = "hvdlite/jax/ops.py"
_IMPORT = (
    "from hvdlite.base.operations import ALLGATHER, ALLREDUCE, ALLTOALL, BROADCAST, REDUCE, "
    "REDUCESCATTER\n"
)
_CALL = (
    "    call = Call(REDUCE, name, process_set, op, prescale_factor, postscale_factor, root_rank)\n"
)

CHANGES = (
    Insert(
        "csrc/base/ops.def",
        'HVDLITE_OP(RemoveNamedProcessSet, REMOVE_NAMED_PROCESS_SET, 11, "remove_named_process_set"'
        ", kNone, kAboutJob | kChangesSets | kAmongNamed)\n",
        'HVDLITE_OP(Portion, PORTION, 12, "portion", kShared, kReduces | kFuses)\n',
    ),
    Insert(
        "csrc/api/hvdlite.h",
        "  HVDLITE_REMOVE_NAMED_PROCESS_SET = 11, /* only the set's members call it */\n",
        "  HVDLITE_PORTION = 12,\n",
    ),
    Insert(
        "csrc/engine/shapes.h",
        "constexpr OpKind PerformedAs(OpKind kind) {\n",
        "  if (kind == OpKind::kPortion) return OpKind::kReducescatter;\n",
    ),
    Insert(
        "hvdlite/base/operations.py",
        'REMOVE_NAMED_PROCESS_SET = Operation(11, "remove_named_process_set")\n',
        'PORTION = Operation(12, "portion", SHARED, reduces=True)\n',
    ),
    Several((
        Insert(_GRADIENTS, "    REDUCE,\n", "    PORTION,\n"),
        Insert(_GRADIENTS, "    REDUCE: _of_reduce,\n", "    PORTION: _of_reducescatter,\n"),
    )),
    Several((
        Insert(_NUMPY, "    REDUCE,\n", "    PORTION,\n"),
        Insert(
            _NUMPY,
            "    return _run(tensor, REDUCE, name, process_set, op, prescale_factor, "
            "postscale_factor, root_rank)\n",
            '''

def portion_async(tensor: Tensor, name: str | None = None, op: int = Average) -> int:
    """Starts portion() and returns a handle."""
    return _start(Call(PORTION, name, global_process_set, op), [tensor])


def portion(tensor: Tensor, name: str | None = None, op: int = Average) -> Any:
    """reducescatter(), under another name."""
    return _run(tensor, PORTION, name, global_process_set, op)
''',
        ),
    )),
    Several((
        Insert(_TORCH, _IMPORT, "from hvdlite.base.operations import PORTION\n"),
        Insert(_TORCH, '    "join", "plan", "poll", ', '"portion", '),
        Insert(
            _TORCH,
            _CALL + "    return _run(call, [tensor], compression)[0]\n",
            '''

def portion(tensor: torch.Tensor, name: str | None = None, op: int = Average) -> torch.Tensor:
    """reducescatter(), under another name."""
    return _run(Call(PORTION, name, global_process_set, op), [tensor], Compression.none)[0]
''',
        ),
    )),
    Several((
        Insert(_TENSORFLOW, _IMPORT, "from hvdlite.base.operations import PORTION\n"),
        Insert(_TENSORFLOW, '"grouped_allreduce", "grouped_reducescatter", ', '"portion", '),
        Insert(
            _TENSORFLOW,
            _CALL + "    return _run(call, [tensor], ignore_name_scope, compression)[0]\n",
            '''

@do_not_convert
def portion(tensor: Any, name: str | None = None, op: int = Average) -> Any:
    """reducescatter(), under another name."""
    return _run(Call(PORTION, name, global_process_set, op), [tensor], False, Compression.none)[0]
''',
        ),
    )),
    Several((
        Insert(_JAX, "    REDUCE,\n", "    PORTION,\n"),
        Insert(_JAX, '    "grouped_allreduce", "grouped_reducescatter", "join", ', '"portion", '),
        Insert(
            _JAX,
            _CALL + "    return _each(call, tree, compression)\n",
            '''

def portion(tree: Tree, name: str | None = None, *, op: int = Average) -> Tree:
    """reducescatter(), under another name."""
    return _together(Call(PORTION, name, global_process_set, op), tree, Compression.none)
''',
        ),
    )),
    Insert(
        "tests/conformance/checks/others.py",
        "        assert hvd.synchronize(handle).tolist() == [want] * 5\n",
        '''

@check()
def a_portion_is_what_reducescatter_gives(here: Here) -> None:
    rows = np.arange(7.0) + here.rank
    here.close(hvd.portion(rows, op=SUM), hvd.reducescatter(rows, op=SUM), "", exact=True)
''',
    ),
    Insert(
        "docs/guides/pytorch.md",
        "| `reduce` | yes | yes | – | – |\n",
        "| `portion` | yes | – | – | – |\n",
    ),
    Insert("scripts/cost-of-change", "COLLECTIVES = {\n", '    "portion": r"\\bportion\\b",\n'),
    Limits(),
    Insert("CHANGELOG.md", "## Unreleased\n\n", "- `hvd.portion` is new.\n"),
)  # fmt: skip
