"""Which of torch's own tests run over hvdlite, and why some of them may fail there."""

from __future__ import annotations

#: Of torch's test/distributed: files with tests that make a group of gloo, on CPUs.
FILES = (
    "test_c10d_gloo.py",
    "test_c10d_spawn_gloo.py",
    "test_c10d_object_collectives.py",
    "test_c10d_functional_native.py",
    "test_device_mesh.py",
    "test_dist2.py",
    "algorithms/quantization/test_quantization.py",
    "checkpoint/test_file_system_checkpoint_cpu.py",
    "optim/test_zero_redundancy_optimizer.py",
    "tensor/test_api.py",
    "tensor/test_dtensor.py",
    "tensor/test_init.py",
    "tensor/test_redistribute.py",
    "tensor/test_tensor_ops.py",
    "tensor/parallel/test_tp_style.py",
)

_GLOOS_OWN = "calls a method of ProcessGroupGloo that c10d's interface does not have"
_TORCH_ASKS = "torch refuses monitored_barrier() by the backend's name, which has to be gloo"
_TIMEOUTS = "torch sets another timeout for ProcessGroupGloo and ProcessGroupNCCL only"

#: What a maintainer of torch would accept, by the test's name.
REASONS: dict[str, str] = {
    "TestDistributed.test_get_backend": "compares the backend's name with 'gloo'",
    "TestDistributed.test_monitored_barrier_gloo": _TORCH_ASKS,
    "TestDistributed.test_monitored_barrier_gloo_rank_0_timeout": _TORCH_ASKS,
    "TestDistributed.test_monitored_barrier_gloo_subgroup": _TORCH_ASKS,
    "GlooProcessGroupWithDispatchedCollectivesTests.test_monitored_barrier": _TORCH_ASKS,
    "TestDistributed.test_barrier_timeout_full_group": (
        "hvdlite names the rank that has ended, at once; the test wants gloo's words for a timeout"
    ),
    "CommTest.test_broadcast_coalesced_gloo_cpu": _GLOOS_OWN,
    "DistributedDataParallelTest.test_gloo_backend_cpu_module": _GLOOS_OWN,
    "DistributedDataParallelTest.test_gloo_backend_cpu_module_grad_is_view": _GLOOS_OWN,
    "ProcessGroupGlooFRTest.test_gloo_set_pg_timeout_api": _TIMEOUTS,
    "ProcessGroupGlooLazyInitTest.test_gloo_set_pg_timeout_api": _TIMEOUTS,
    "ProcessGroupGlooTest.test_gloo_set_pg_timeout_api": _TIMEOUTS,
    "GlooProcessGroupWithDispatchedCollectivesTests.test_all_to_all_single": (
        "wants an error for a tensor that is not contiguous, which hvdlite takes"
    ),
    "DTensorAPITest.test_distribute_tensor_rank": (
        "counts calls of torch's dispatcher, by way of which torch calls groups in C++ only"
    ),
    "LargeCommTest.test_new_group_ordered": (
        "hvdlite's groups have their ranks in ascending order, and say so in a ValueError"
    ),
}
