"""Faults of hvdlite/torch, and of the policies in hvdlite/adapter that it shares with others."""

from __future__ import annotations

from mutants.mutant import Mutant

_REDUCER = "hvdlite/adapter/reducer.py"
_GRADIENTS = "hvdlite/torch/gradients.py"
_OPTIMIZER = "hvdlite/torch/distributed_optimizer.py"
_STATE = "hvdlite/torch/optimizer_state.py"
_ADAPTER = "tests/unit/test_adapter.py::"
_TORCH = "tests/conformance/test_torch.py::shm-2::"
_T = _TORCH + "torch_"

MUTANTS = (
    Mutant(
        "R1",
        _REDUCER,
        "                lacking.add(flight.place)\n",
        "                pass\n",
        "a gradient that nobody has is announced as present: weight decay moves what took no part",
        (
            _T + "equivalence.with_a_sparse_embedding",
            _T + "equivalence.with_parameters_that_get_no_gradient_in_a_step",
        ),
    ),
    Mutant(
        "R2",
        _REDUCER,
        (
            "        self._direct.permit(\n"
            "            number, self.flights[number].directly and "
            "self._aggregation.travels_at_once(number)\n"
            "        )"
        ),
        "        self._direct.permit(number, False)",
        "no gradient leaves by its native hook: all of them take the long way",
        (_T + "ways.dense_gradients_leave_by_their_native_hooks",),
    ),
    Mutant(
        "R3",
        _REDUCER,
        "        self._others.clear()\n        self._sparse.clear()\n        "
        "self._aggregation.reset()\n",
        "        self._others.clear()\n        self._sparse.clear()\n",
        "after an exception in a step the passes of the old one count for the next",
        (
            _T + "misuse.too_many_backward_passes_are_an_error",
            _T + "misuse.a_failure_in_a_hook_surfaces_in_step",
        ),
    ),
    Mutant(
        "R4",
        _GRADIENTS,
        ".to_sparse(like.sparse_dim())",
        ".to_sparse()",
        "sparse_as_dense returns a gradient of another kind",
        (_T + "gradients.keeps_how_many_of_its_dimensions_are_sparse",),
    ),
    Mutant(
        "R5",
        "hvdlite/torch/framework.py",
        "flat[:: max(1, flat.numel() // most)]",
        "flat[:1]",
        "ranks that start differently are told so only if the first element differs",
        (_T + "misuse.ranks_that_start_with_different_parameters_are_told",),
    ),
    Mutant(
        "R6",
        _GRADIENTS,
        "            handle.remove()\n",
        "",
        "an optimizer that was replaced goes on reducing",
        (_T + "life.one_that_is_made_anew_for_the_same_model_takes_over",),
    ),
    Mutant(
        "R7",
        _REDUCER,
        """            living.arrived(number)

    return hook
""",
        """            pass

    return hook
""",
        "gradients that go the long way are reduced in step() only: nothing overlaps",
        (
            _T + "misuse.zero_grad_between_backward_and_step_is_an_error",
            _T + "misuse.too_many_backward_passes_are_an_error",
        ),
    ),
    Mutant(
        "R8",
        _REDUCER,
        "            for number in members:\n                self._choose_way(number)\n",
        "",
        "members of a group leave alone by the native hook",
        (_T + "life.members_of_a_group_do_not_leave_alone",),
    ),
    Mutant(
        "R9",
        _REDUCER,
        "                if not dimensions and first != presence.DENSE:\n",
        "                if first != presence.DENSE:\n",
        "what a rank lacks of a sparse gradient is never made up",
        (_T + "absent.where_only_some_ranks_have_a_sparse_gradient_the_others_count_as_zeros",),
        hangs=True,
    ),
    Mutant(
        "R10",
        "hvdlite/adapter/roll_call.py",
        "            self._refuse(found.of_both_kinds, mine)\n",
        "            pass\n",
        "a gradient that is dense on one rank and sparse on another waits for ever",
        (_T + "absent.a_gradient_that_is_dense_on_one_rank_and_sparse_on_another_is_named",),
        hangs=True,
    ),
    Mutant(
        "A7",
        "hvdlite/adapter/presence.py",
        "            if first != FROZEN:\n",
        "            if first == DENSE:\n",
        "a parameter that one rank has thawed is noticed in the first step in which it has a "
        "gradient",
        ("tests/unit/test_presence.py::test_all_ranks_conclude_the_same",),
    ),
    Mutant(
        "O1",
        _OPTIMIZER,
        'return {**state, "compression": memory} if memory else state',
        "return state",
        "the compression's memory is not in the checkpoint",
        (_T + "compression.its_memory_is_part_of_the_checkpoint",),
    ),
    Mutant(
        "O2",
        _OPTIMIZER,
        "        self._hvd.forget()\n        memory = state_dict.get",
        "        memory = state_dict.get",
        "after load_state_dict() gradients under way are those of the step before",
        (_T + "misuse.too_many_backward_passes_are_an_error",),
    ),
    Mutant(
        "O3",
        _REDUCER,
        "        if self._frozen:\n            self.thaw()\n",
        "",
        "layers that thaw are never reduced",
        (_T + "life.layers_that_thaw_later_are_reduced_too",),
    ),
    Mutant(
        "O4",
        _OPTIMIZER,
        "        finally:\n            self._hvd.synchronizes = True\n",
        "        finally:\n            pass\n",
        "skip_synchronize() never ends",
        (
            _T + "misuse.step_after_synchronize_warns_exactly_once",
            _T + "equivalence.with_clipping_of_the_reduced_gradient",
        ),
    ),
    Mutant(
        "O5",
        "hvdlite/adapter/step.py",
        "factor = float(gradient_predivide_factor)",
        "factor = 1.0",
        "gradient_predivide_factor has no effect",
        (_T + "gradients.does_not_overflow_where_it_is_divided_before_the_sum",),
    ),
    Mutant(
        "O6",
        "hvdlite/adapter/step.py",
        "prescale=1.0 / factor,",
        "prescale=1.0,",
        "gradients are multiplied by gradient_predivide_factor and never divided",
        (_T + "equivalence.with_options_that_change_the_way_but_not_the_result",),
    ),
    Mutant(
        "O7",
        _OPTIMIZER,
        "            if calls > 1:\n                raise RuntimeError(CLOSURE)\n",
        "",
        "an optimizer that evaluates its closure twice reduces twice",
        (_T + "misuse.an_optimizer_that_evaluates_its_closure_twice_is_refused",),
    ),
    Mutant(
        "O8",
        "hvdlite/adapter/shared.py",
        (
            "        if not self.synchronized or (\n"
            '            self.synchronized == "by a scaler" and step is not self._scaled\n'
            "        ):"
        ),
        "        if not self.synchronized:",
        "after a step that a scaler has skipped, a rank without a batch takes no part in the next",
        (_T + "absent.a_rank_without_a_batch_takes_part_in_a_scalers_step",),
        hangs=True,
    ),
    Mutant(
        "O9",
        "hvdlite/adapter/shared.py",
        "            pairs = []  # added later, without a name\n",
        "            pass\n",
        "a parameter that is added later without a name is refused",
        (_ADAPTER + "test_parameters_that_are_added_later_keep_the_names_of_the_others",),
    ),
    Mutant(
        "O10",
        "hvdlite/adapter/containers.py",
        " and len(own) == len(value):",
        ":",
        "a state that has become longer since its copy ends the job",
        (_ADAPTER + "test_containers_keep_their_kinds_and_meet_what_was_there",),
    ),
    Mutant(
        "S1",
        _STATE,
        " and own.dtype == value.dtype",
        "",
        "a state of another dtype is kept",
        (_T + "functions.the_state_has_the_dtype_that_the_root_keeps_it_in",),
    ),
    Mutant(
        "S2",
        _STATE,
        "                parameter.grad = torch.zeros_like(parameter)\n",
        "                pass\n",
        "no gradients of zeros before the first step",
        (_T + "functions.options_keep_their_python_types",),
    ),
    Mutant(
        "S6",
        _STATE,
        '            optimizer.__dict__["param_groups"] = self._groups\n',
        "            pass\n",
        "a schedule that was made on the wrapped optimizer changes groups that nobody trains with",
        (_T + "life.what_was_made_on_the_wrapped_optimizer_goes_on_after_a_checkpoint_is_loaded",),
    ),
    Mutant(
        "S3",
        "hvdlite/torch/functions.py",
        "        named = sorted(params.items())\n",
        "        named = [(None, p) for p in params.values()]\n        named = named[:1]\n",
        "of a state_dict only the first tensor is broadcast",
        (_T + "functions.parameters_come_from_a_state_dict_or_a_list",),
    ),
    Mutant(
        "S4",
        "hvdlite/torch/sync_batch_norm.py",
        "(counts * (variances + (means - mean) ** 2)).sum(0) / total",
        "(counts * variances).sum(0) / total",
        "the variance of all batches leaves out how far their means are apart",
        (_T + "batch_norm.forward_backward_and_statistics_are_those_of_the_whole_batch",),
    ),
    Mutant(
        "S5",
        "hvdlite/torch/sparse.py",
        "        if op == Average:\n            values = values / members\n",
        "",
        "averages of sparse tensors are sums",
        (_T + "tensors.sparse_tensors_add_up", _T + "equivalence.with_a_sparse_embedding"),
    ),
    Mutant(
        "A1",
        "hvdlite/adapter/aggregation.py",
        "            if left < 0:\n                raise AssertionError(_TOO_MANY)\n",
        "",
        "too many backward passes are not noticed",
        (_ADAPTER + "test_a_gradient_travels_after_its_last_pass",),
    ),
    Mutant(
        "A2",
        "hvdlite/adapter/aggregation.py",
        "            if self._waiting[unit]:\n                return ()\n",
        "",
        "a group travels with its first member",
        (_ADAPTER + "test_a_group_travels_with_its_last_member",),
    ),
    Mutant(
        "A3",
        "hvdlite/adapter/compression.py",
        "return tensor if self._framework.dtype(tensor) == ctx else "
        "self._framework.cast(tensor, ctx)",
        "return tensor",
        "what was compressed stays in 16 bits",
        (_TORCH + "collectives.compression_keeps_the_dtype_and_leaves_integers_alone",),
    ),
    Mutant(
        "A4",
        "hvdlite/core/gradients.py",
        "        factor *= call.process_set.size() or 1\n",
        "        pass\n",
        "the gradient of a reducescatter of sums is too small",
        (_TORCH + "gradients.of_reducescatter_is_the_allgather",),
    ),
    Mutant(
        "A5",
        "hvdlite/adapter/names.py",
        "        _counted_in, _count = era, 0\n",
        "        _counted_in = era\n",
        "after shutdown() and init() optimizers of ranks that made others before have other names",
        (_ADAPTER + "test_optimizers_are_counted_from_each_init_on",),
    ),
    Mutant(
        "A6",
        "hvdlite/adapter/divergence.py",
        "            if mine != theirs:\n                return",
        "            if False:\n                return",
        "ranks that train other parameters wait for each other for ever",
        (_ADAPTER + "test_a_difference_has_a_sentence",),
    ),
    Mutant(
        "F3",
        "hvdlite/adapter/grouping.py",
        "ends = [each * (i + 1) + min(i + 1, odd) for i in range(count)]",
        "ends = [each * (i + 1) for i in range(count)]",
        "with a remainder the last gradients are in no group",
        (_ADAPTER + "test_gradients_are_grouped_by_a_number_or_by_lists",),
    ),
)
