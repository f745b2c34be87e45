"""Tables: what Horovod 0.28.1 has, what hvdlite does differently, and which variables have no
effect.

They do not list what hvdlite has: surface reads that from its sources, and knobs.py from its own
table.
"""

from __future__ import annotations

_BASICS = """
    init shutdown is_initialized start_timeline stop_timeline size local_size cross_size rank
    local_rank cross_rank mpi_threads_supported mpi_enabled mpi_built gloo_enabled gloo_built
    nccl_built ddl_built ccl_built cuda_built rocm_built
"""
_SETS = " ProcessSet global_process_set add_process_set remove_process_set "
_REDUCTIONS = " Average Sum Adasum Min Max Product "
_KERAS = f"""{_BASICS} {_SETS} Average Sum Adasum Compression callbacks elastic DistributedOptimizer
    PartialDistributedOptimizer broadcast_global_variables allreduce allgather broadcast
    reducescatter load_model"""
_CALLBACKS = """BroadcastGlobalVariablesCallback MetricAverageCallback LearningRateScheduleCallback
    LearningRateWarmupCallback BestModelCheckpoint"""
_KERAS_ELASTIC = (
    "KerasState CommitStateCallback UpdateBatchStateCallback UpdateEpochStateCallback run"
)

#: the names that programs use, by module; compat.names lists packages of which hvdlite has nothing
HOROVOD = {
    module: frozenset(text.split())
    for module, text in {
        "horovod": "run",
        "horovod.torch": f"""{_BASICS} {_SETS} {_REDUCTIONS} elastic Compression allgather_object
            broadcast_object broadcast_optimizer_state broadcast_parameters allreduce
            allreduce_async allreduce_ allreduce_async_ grouped_allreduce grouped_allreduce_async
            grouped_allreduce_ grouped_allreduce_async_ sparse_allreduce_async allgather
            allgather_async grouped_allgather grouped_allgather_async broadcast broadcast_async
            broadcast_ broadcast_async_ alltoall alltoall_async reducescatter reducescatter_async
            grouped_reducescatter grouped_reducescatter_async join barrier poll synchronize
            HorovodInternalError DistributedOptimizer SyncBatchNorm mpi_ops mpi_lib_v2 functions
            optimizer compression sync_batch_norm""",
        "horovod.torch.optimizer": "_DistributedOptimizer _DistributedAdasumOptimizer",
        "horovod.torch.compression": "Compression Compressor NoneCompressor FP16Compressor",
        "horovod.torch.mpi_lib_v2": "horovod_torch_poll horovod_torch_wait_and_clear",
        "horovod.torch.elastic": "TorchState ElasticSampler run state sampler",
        "horovod.tensorflow": f"""{_BASICS} {_SETS} {_REDUCTIONS} is_homogeneous rank_op
            local_rank_op size_op local_size_op process_set_included_op allreduce grouped_allreduce
            allgather grouped_allgather broadcast broadcast_ alltoall reducescatter
            grouped_reducescatter join _allreduce broadcast_global_variables
            BroadcastGlobalVariablesHook broadcast_variables broadcast_object broadcast_object_fn
            allgather_object SyncBatchNormalization Compression DistributedOptimizer
            DistributedGradientTape PartialDistributedGradientTape LocalGradientAggregationHelper
            elastic handle_average_backwards_compatibility check_num_rank_power_of_2 gpu_available
            _executing_eagerly _make_subgraph _cache _LegacyOptimizer _make_allreduce_grads_fn
            gradient_aggregation_eager vars_to_refs refs_to_vars util mpi_ops functions compression
            sync_batch_norm data keras""",
        "horovod.tensorflow.compression": "Compression Compressor NoneCompressor FP16Compressor",
        "horovod.tensorflow.mpi_ops": "_allreduce _grouped_allreduce",
        "horovod.tensorflow.gradient_aggregation": "LocalGradientAggregationHelper",
        "horovod.tensorflow.gradient_aggregation_eager": "LocalGradientAggregationHelperEager",
        "horovod.tensorflow.elastic": "TensorFlowKerasState TensorFlowState run",
        "horovod.tensorflow.keras": _KERAS,
        "horovod.tensorflow.keras.callbacks": _CALLBACKS,
        "horovod.tensorflow.keras.elastic": _KERAS_ELASTIC,
        "horovod.keras": _KERAS,
        "horovod.keras.callbacks": _CALLBACKS,
        "horovod.keras.elastic": _KERAS_ELASTIC,
        "horovod.common": "basics elastic exceptions process_sets util",
        "horovod.common.basics": "HorovodBasics",
        "horovod.common.elastic": "State ObjectState run_fn notification_manager",
        "horovod.runner.elastic": "constants discovery driver worker",
        "horovod.runner.elastic.constants": "RESET_LIMIT_EXCEEDED_MESSAGE",
        "horovod.runner.elastic.discovery": "FixedHosts HostDiscovery HostDiscoveryScript",
        "horovod.runner.elastic.driver": "DISCOVER_HOSTS_FREQUENCY_SECS",
        "horovod.runner.elastic.worker": "HostUpdateResult WorkerNotificationManager",
        "horovod.common.exceptions": "HorovodInternalError HostsUpdatedInterrupt "
        "HorovodVersionMismatchError",
        "horovod.common.process_sets": _SETS,
        "horovod.common.util": """env gloo_built mpi_built nccl_built ddl_built ccl_built
            gpu_available extension_available _cache split_list num_rank_is_power_2 is_iterable
            is_version_greater_equal_than check_extension get_ext_suffix get_extension_full_path
            check_installed_version get_average_backwards_compatibility_fun""",
        "horovod.ray": "RayExecutor BaseHorovodWorker ElasticRayExecutor",
        "horovod.ray.runner": "MiniSettings Coordinator StaticAdapter RayExecutor",
        "horovod.ray.worker": "BaseHorovodWorker",
        "horovod.ray.ray_logger": "configure log",
        "horovod.ray.utils": "detect_nics nics_to_env_var",
        "horovod.ray.strategy": "create_placement_group",
        "horovod.ray.elastic": "ElasticRayExecutor RayHostDiscovery TestDiscovery",
        "horovod.ray.elastic_v2": "RayHostDiscovery TestDiscovery ElasticParams ElasticAdapter",
        "horovod.runner": "run launch common elastic http util _HorovodArgs",
        "horovod.runner.launch": "run_commandline parse_args run_controller _run",
        "horovod.runner.util": "threads network streams",
        "horovod.runner.util.threads": "in_thread on_event execute_function_multithreaded",
        "horovod.runner.util.network": """filter_local_addresses get_driver_ip
            get_local_host_addresses get_local_host_intfs resolve_host_address""",
        "horovod.runner.util.streams": "Pipe",
        "horovod.runner.common.util": "config_parser env host_hash hosts secret timeout",
        "horovod.runner.common.util.config_parser": "set_env_from_args HOROVOD_FUSION_THRESHOLD "
        "HOROVOD_CYCLE_TIME",
        "horovod.runner.common.util.env": "get_env_rank_and_size is_exportable",
        "horovod.runner.common.util.host_hash": "host_hash",
        "horovod.runner.common.util.hosts": """HostInfo SlotInfo INVALID_SLOT_INFO
            get_host_assignments parse_host_files parse_hosts parse_hosts_and_slots""",
        "horovod.runner.common.util.secret": "HOROVOD_SECRET_KEY DIGEST_LENGTH_BYTES "
        "make_secret_key compute_digest check_digest",
        "horovod.runner.common.util.timeout": "Timeout TimeoutException",
    }.items()
}

#: functions by their last name, with the same call and another result
DIFFERS = {
    "mpi_built": "says whether mpi4py and an MPI are found here, not what was compiled in",
    "mpi_enabled": "says whether mpirun has started the job or its tensors travel over MPI; Adasum "
    "does not need that here",
    "mpi_threads_supported": "raises ValueError where tensors do not travel over MPI, as Horovod "
    "does where MPI is not enabled",
    "nccl_built": "is the version of the NCCL that is found here, not what was compiled in; "
    "0: none",
    "rocm_built": "is False: tensors of AMD's GPUs are not taken",
}

#: arguments, of any function
ARGUMENTS = {
    "average": "works, with a DeprecationWarning: say op=hvd.Average or op=hvd.Sum",
    "num_groups": "works, with a DeprecationWarning: say groups=",
    "device_dense": "has no effect: hvdlite finds out by itself where a tensor is",
    "device_sparse": "has no effect: hvdlite finds out by itself where a tensor is",
}

_LAUNCHERS = (
    "hvd.init() believes it, and needs all that a launcher sets; hvdliterun does that for you"
)
_OURS = "hvdlite has its own communication, to which this does not apply"
BUILD = "Horovod's build read it; hvdlite has nothing to choose when it is built"
_PAIRWISE = (
    "hvdlite's autotuning compares settings pairwise, without a model of them, and does not end "
    "(docs/guides/autotune.md)"
)

#: other variables that hvdlite reads
ALSO_WORK = {
    "HOROVOD_ELASTIC_TIMEOUT": "is the default of hvdliterun --elastic-timeout",
    "TF_USE_LEGACY_KERAS": "tf.keras is tf_keras then (pip install tf_keras), for hvdlite as well",
}

#: variables that launchers set and programs need not
LAUNCHERS = {
    f"HOROVOD_{name}": _LAUNCHERS
    for name in """RANK SIZE LOCAL_RANK LOCAL_SIZE CROSS_RANK CROSS_SIZE HOSTNAME
        GLOO_RENDEZVOUS_ADDR GLOO_RENDEZVOUS_PORT""".split()
}

#: variables that Horovod has and hvdlite does not read, and the reason
NO_EFFECT = {
    f"HOROVOD_{name}": why
    for why, names in {
        _OURS: """CONTROLLER ADASUM_MPI_CHUNK_SIZE CCL_CACHE NUM_NCCL_STREAMS DISABLE_NVTX_RANGES
            BATCH_D2D_MEMCOPIES HIERARCHICAL_ALLGATHER ENABLE_ASYNC_COMPLETION""",
        _PAIRWISE: "AUTOTUNE_BAYES_OPT_MAX_SAMPLES AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
        "a rank that is lost is noticed by itself; see HVDLITE_HEARTBEAT_SECONDS in "
        "docs/reference/knobs.md": "GLOO_TIMEOUT_SECONDS",
        "collectives in compiled functions need no setting": "ENABLE_XLA_OPS",
        "hvdliterun --min-np makes a job elastic and sets it": "ELASTIC",
        BUILD: """GPU_ALLREDUCE GPU_ALLGATHER GPU_BROADCAST GPU_ALLTOALL GPU_REDUCESCATTER WITH_MPI
            WITH_GLOO WITH_TENSORFLOW WITH_PYTORCH WITH_MXNET WITHOUT_MPI WITHOUT_GLOO
            WITHOUT_TENSORFLOW WITHOUT_PYTORCH WITHOUT_MXNET CUDA_HOME""",
    }.items()
    for name in names.split()
}
