"""The knob table: one row for each setting.

A row defines the environment variables, the launcher's flag, the field of the C++ config
(csrc/base/knobs.py) and the entry in docs/reference/knobs.md (knobs_page.py). To add a knob, add a
row. The build reads this file before anything is installed, so it imports the standard library
only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

Value = bool | int | float | str

_TRUE = ("true", "yes", "on")
_FALSE = ("false", "no", "off")


def _names(name: str, horovod: str | None = "") -> tuple[str, ...]:
    """HVDLITE_<name> and Horovod's variable: of the same name, of another name, or none (None)."""
    if horovod is None:
        return (f"HVDLITE_{name}",)
    return (f"HVDLITE_{name}", f"HOROVOD_{horovod or name}")


class Knob(NamedTuple):
    """One row. `environment` is searched from left to right; the first variable that is set
    wins."""

    field: str  # name in the C++ config and in resolve()'s result
    environment: tuple[str, ...]
    type: str  # bool | int | float | str | choice
    default: Value
    about: str  # one sentence for people
    section: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    # if it has "on" and "off", all words for a bool are accepted, too
    choices: tuple[str, ...] = ()
    # launcher's flag; for a bool or an on/off choice it takes no value and means true
    flag: str | None = None
    flag_off: str | None = None  # the flag that means false
    flag_scale: int = 1  # the flag's number times this is the knob's value
    core: bool = True  # False: only Python reads it, and the native core does not have it
    # all ranks need the same value, because it decides which rank sends what and when
    alike: bool = False
    yaml: str = ""  # its key in --config-file; "not section.key": true there means false here

    @property
    def is_switch(self) -> bool:
        """Whether its flag is a pair without a value."""
        return self.type == "bool" or {"on", "off"} <= set(self.choices)

    def allowed(self) -> str:
        """Describes the values that are allowed."""
        if self.type == "bool":
            return "1/0, true/false, yes/no or on/off"
        if self.type == "choice":
            return "one of " + ", ".join(self.choices) + (" (or 1/0)" if self.is_switch else "")
        if self.type == "str":
            return "any text"
        kind = "a whole number" if self.type == "int" else "a number"
        if self.minimum is not None and self.maximum is not None:
            kind += f" from {self.minimum} to {self.maximum}"
        elif self.minimum is not None:
            kind += f" of at least {self.minimum}"
        elif self.maximum is not None:
            kind += f" of at most {self.maximum}"
        return kind + (f" ({self.unit})" if self.unit else "")

    def lookup(self, environ: Mapping[str, str]) -> tuple[str, str] | None:
        """Returns the variable that sets it, and its text."""
        # An empty text is a value only for a text knob. For others, `HVDLITE_X= command` means not
        # set.
        for name in self.environment:
            text = environ.get(name)
            if text is not None and (text.strip() or self.type == "str"):
                return name, text
        return None

    def parse(self, text: str, source: str) -> Value:
        """Returns the typed value of `text`. The error names `source`, a variable or a flag."""
        value = self._convert(text.strip())
        if value is None:
            raise ValueError(f"{source}={text!r} is not allowed: expected {self.allowed()}.")
        return value

    def _convert(self, text: str) -> Value | None:
        if self.type == "str":
            return text
        if self.type == "bool":
            return _to_bool(text)
        if self.type == "choice":
            if text.lower() in self.choices:
                return text.lower()
            switch = _to_bool(text) if self.is_switch else None
            return None if switch is None else ("on" if switch else "off")
        try:
            number: int | float = int(text) if self.type == "int" else float(text)
        except ValueError:
            return None
        too_low = self.minimum is not None and number < self.minimum
        too_high = self.maximum is not None and number > self.maximum
        if not math.isfinite(number) or too_low or too_high or abs(number) >= 1 << 63:
            return None
        return number


def _to_bool(text: str) -> bool | None:
    """Follows Horovod: any integer above 0 is true. The usual words work, too."""
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    try:
        return int(text) > 0
    except ValueError:
        return None


_MIB = 1 << 20


KNOBS: tuple[Knob, ...] = (
    # --- Batching
    Knob(
        "fusion_threshold", _names("FUSION_THRESHOLD"), "int", 128 * _MIB,
        "The largest batch into which tensors are fused; 0 sends every tensor alone.",
        "Batching", unit="bytes", minimum=0, flag="--fusion-threshold-mb", flag_scale=_MIB,
        yaml="params.fusion_threshold_mb",
    ),
    Knob(
        "cycle_time", _names("CYCLE_TIME"), "float", 1.0,
        "How long at most the background thread waits for more submissions before it sends a "
        "batch; on a GPU that is behind the program, five times as long.",
        "Batching", unit="milliseconds", minimum=0, maximum=60_000, flag="--cycle-time-ms",
        yaml="params.cycle_time_ms",
    ),
    Knob(
        "cache_capacity", _names("CACHE_CAPACITY"), "int", 65536,
        "How many tensors are remembered. A remembered tensor is negotiated by its number alone; 0 "
        "remembers none.",
        "Batching", unit="tensors", minimum=0, maximum=1 << 24, flag="--cache-capacity",
        yaml="params.cache_capacity",
    ),
    Knob(
        "disable_group_fusion", _names("DISABLE_GROUP_FUSION"), "bool", False,
        "Keep each grouped operation in a batch of its own.",
        "Batching",
    ),
    Knob(
        "dynamic_process_sets", _names("DYNAMIC_PROCESS_SETS"), "bool", False,
        "Accepted for compatibility with Horovod, without effect: process sets can always be added "
        "and removed at run time.",
        "Batching",
    ),
    Knob(
        "autotune", _names("AUTOTUNE"), "bool", False,
        "Search the fastest settings while the job runs (docs/guides/autotune.md).",
        "Autotuning", flag="--autotune", flag_off="--no-autotune", yaml="autotune.enabled",
        alike=True,
    ),
    Knob(
        "autotune_log", _names("AUTOTUNE_LOG"), "str", "",
        "The file in which rank 0 logs each sample of autotuning, as CSV. Empty: none.",
        "Autotuning", flag="--autotune-log-file", yaml="autotune.log_file",
    ),
    Knob(
        "autotune_file", _names("AUTOTUNE_FILE", None), "str", "", "The best settings. Rank 0 "
        "writes them, and a job of this size begins with them.",
        "Autotuning", flag="--autotune-file",
    ),
    Knob(
        "autotune_keep", _names("AUTOTUNE_KEEP", None), "str", "",
        "What autotuning does not change, besides knobs that you set: cycle_time, fusion_threshold,"
        " net_byte_cost, shm_small_bytes, shm_chunk_bytes; separated by commas.", "Autotuning",
    ),
    Knob(
        "autotune_warmup_samples", _names("AUTOTUNE_WARMUP_SAMPLES"), "int", 3,
        "How many samples autotuning drops at the beginning.", "Autotuning", unit="samples",
        minimum=0, flag="--autotune-warmup-samples", yaml="autotune.warmup_samples",
    ),
    Knob(
        "autotune_steps_per_sample", _names("AUTOTUNE_STEPS_PER_SAMPLE"), "int", 10,
        "How many steps autotuning measures as one sample.", "Autotuning", unit="steps",
        minimum=1, flag="--autotune-steps-per-sample", yaml="autotune.steps_per_sample",
    ),
    Knob(
        "autotune_sample_ms", _names("AUTOTUNE_SAMPLE_MS", None), "float", 50.0,
        "The least time in flight of a sample; shorter steps make it measure more of them.",
        "Autotuning", unit="milliseconds", minimum=0, maximum=60_000,
    ),
    # --- Communication
    Knob(
        "cpu_operations", _names("CPU_OPERATIONS"), "choice", "auto",
        "What carries tensors in host memory. shm: shared memory, so all ranks must be on one "
        "host. net: TCP. mpi: MPI. gloo (Horovod's name): shared memory within a host, TCP between "
        "hosts. auto: shared memory within a host; between hosts MPI, if an MPI's launcher has "
        "started the job, else TCP.",
        "Communication", choices=("auto", "shm", "net", "mpi", "gloo"), alike=True,
    ),
    Knob(
        "hierarchical_allreduce", _names("HIERARCHICAL_ALLREDUCE"), "choice", "auto",
        "An allreduce adds inside each host first, then between hosts. auto: for tensors in host "
        "memory. "
        "on: for tensors on GPUs, too, where NCCL otherwise chooses rings or trees of its own.",
        "Communication", choices=("auto", "on", "off"),
        flag="--hierarchical-allreduce", flag_off="--no-hierarchical-allreduce", alike=True,
        yaml="params.hierarchical_allreduce",
    ),
    Knob(
        "torus_allreduce", _names("TORUS_ALLREDUCE"), "bool", False,
        "For tensors on GPUs, the same as HVDLITE_HIERARCHICAL_ALLREDUCE=on.",
        "Communication", flag="--torus-allreduce", flag_off="--no-torus-allreduce", alike=True,
        yaml="params.torus_allreduce",
    ),
    Knob(
        "shm_chunk_bytes", _names("SHM_CHUNK_BYTES", None), "int", 262144,
        "Size of the chunks in which large tensors go through shared memory.",
        "Communication", unit="bytes", minimum=4096, maximum=1 << 30, alike=True,
    ),
    Knob(
        "shm_small_bytes", _names("SHM_SMALL_BYTES", None), "int", 32768,
        "Ranks of one host exchange tensors up to this size whole, in one step; two ranks do so up "
        "to eight times this size.",
        "Communication", unit="bytes", minimum=0, maximum=1 << 30, alike=True,
    ),
    Knob(
        "shm_meetings", _names("SHM_MEETINGS", None), "bool", True,
        "Ranks of one host exchange small tensors of blocking allreduces without negotiation if "
        "all know the operation from before.",
        "Communication", alike=True,
    ),
    Knob(
        "net_meetings", _names("NET_MEETINGS", None), "bool", True,
        "Two ranks on two hosts perform small blocking allreduces with one message each way, "
        "without negotiation, if both know the operation from before.",
        "Communication", alike=True,
    ),
    Knob(
        "mpi_allreduce", _names("MPI_ALLREDUCE", None), "choice", "auto",
        "How an allreduce over MPI adds. library: MPI adds, in an order of its own. direct, "
        "gather: hvdlite adds what "
        "MPI's messages bring. auto: the fastest way that gives the same bits in every run.",
        "Communication", choices=("auto", "library", "direct", "gather"), alike=True,
    ),
    Knob(
        "mpi_chunk_bytes", _names("MPI_CHUNK_BYTES", None), "int", 1048576,
        "Size of the chunks in which large tensors go over MPI.",
        "Communication", unit="bytes", minimum=4096, maximum=1 << 30, alike=True,
    ),
    Knob(
        "mpi_threads_disable", _names("MPI_THREADS_DISABLE"), "bool", False,
        "Ask MPI for MPI_THREAD_SERIALIZED instead of MPI_THREAD_MULTIPLE. "
        "The program must then not call MPI while operations are in flight.",
        "Communication", flag="--mpi-threads-disable", flag_off="--no-mpi-threads-disable",
        core=False, yaml="library_options.mpi_threads_disable",
    ),
    Knob(
        "gpu_operations", _names("GPU_OPERATIONS"), "choice", "auto",
        "What carries tensors on GPUs. nccl: NCCL. stage: a copy in host memory, carried as "
        "HVDLITE_CPU_OPERATIONS says. mpi (Horovod's name): the same as stage. auto: NCCL if all "
        "ranks of a process set can use it, else stage.",
        "Communication", choices=("auto", "nccl", "mpi", "stage"), alike=True,
    ),
    Knob(
        "gpu_chunk_bytes", _names("GPU_CHUNK_BYTES", None), "int", 4 * _MIB,
        "Size of the chunks in which large tensors on GPUs are staged. Each process set uses "
        "pinned memory for four of them.",
        "Communication", unit="bytes", minimum=4096, maximum=1 << 30, alike=True,
    ),
    Knob(
        "cuda_library", _names("CUDA_LIBRARY", None), "str", "libcuda.so.1",
        "The library of the CUDA driver: a name or a path for the loader. It is loaded for the "
        "first tensor on a GPU.",
        "Communication",
    ),
    Knob(
        "nccl_library", _names("NCCL_LIBRARY", None), "str", "",
        "The library of NCCL. Empty: the one that the framework has loaded, else that of the "
        "nvidia-nccl wheel, else the system's.",
        "Communication",
    ),
    Knob(
        "nccl_wheel", _names("NCCL_WHEEL", None), "str", "",
        "Folders, separated by colons, in which hvdlite looks for the nvidia-nccl wheel. Empty: "
        "where Python looks for packages.",
        "Communication",
    ),
    Knob(
        "nccl_host_id", ("NCCL_HOSTID",), "str", "",
        "NCCL's own variable. NCCL takes ranks with different texts for ranks of different hosts, "
        "which may share a GPU.",
        "Communication",
    ),
    Knob(
        "nccl_multi_rank_gpu", ("NCCL_MULTI_RANK_GPU_ENABLE",), "bool", False,
        "NCCL's own variable. It lets ranks share a GPU, with NCCL 2.30 and later.",
        "Communication",
    ),
    Knob(
        "network_interfaces", _names("NETWORK_INTERFACES", "GLOO_IFACE"), "str", "",
        "Network interfaces between hosts, all used at once: eth0,eth1. Empty: one that works.",
        "Communication", flag="--network-interfaces",
    ),
    Knob(
        "tcp_congestion", _names("TCP_CONGESTION", None), "choice", "auto",
        "The congestion control of the TCP connections between ranks. auto: the system's. But "
        "where that is BBR, and a packet and its answer take less than 2 ms, Reno: BBR sets a "
        "timer for each packet, which can double the time of an allreduce there. system: always "
        "the system's.",
        "Communication", choices=("auto", "system"), alike=True,
    ),
    Knob(
        "link_checks", _names("LINK_CHECKS", None), "choice", "auto",
        "Put check words (CRC-32C) on the TCP connections between ranks. A bit that changes on the "
        "way is then an error "
        "and never a wrong result. auto: between machines, but not between ranks of one machine. "
        "They cost processor time: at 10 Gbit/s and more, an allreduce takes 1.15 to 1.3 times as "
        "long with them. Slower networks hide that. off leaves only TCP's own check of 16 bits.",
        "Communication", choices=("auto", "on", "off"), alike=True,
    ),
    Knob(
        "host_id", _names("HOST_ID", None), "str", "",
        "Ranks with the same text share memory, and ranks with different texts count as different "
        "hosts. Empty: the identity of the machine.",
        "Communication",
    ),
    # --- Threads
    Knob(
        "spin_microseconds", _names("SPIN_MICROSECONDS", None), "int", -1,
        "How long a waiting thread spins before it sleeps; -1 chooses by the number of cores per "
        "rank.",
        "Threads", unit="microseconds", minimum=-1, maximum=1_000_000,
    ),
    Knob(
        "thread_affinity", _names("THREAD_AFFINITY"), "str", "",
        "The core of each local rank's background thread: one number for each rank, separated by "
        "commas.",
        "Threads", flag="--thread-affinity", yaml="library_options.thread_affinity",
    ),
    Knob(
        "overlap", _names("OVERLAP", None), "choice", "auto",
        "When gradients are reduced. on: while the backward pass runs. off: in step(). "
        "auto: on if the host has more processors than ranks.",
        "Threads", choices=("auto", "on", "off"),
    ),
    Knob(
        "spread_ranks", _names("SPREAD_RANKS", None), "bool", True,
        "A waiting rank moves to a free processor if another rank of its host uses the same one.",
        "Threads",
    ),
    # --- Starting and ending
    Knob(
        "start_timeout_seconds", _names("START_TIMEOUT"), "float", 30.0,
        "How long hvdliterun waits for all hosts, and hvd.init() for all ranks.",
        "Starting and ending", unit="seconds", minimum=0.001, flag="--start-timeout",
    ),
    Knob(
        "spark_start_timeout_seconds", _names("SPARK_START_TIMEOUT"), "float", 600.0,
        "How long hvdlite.spark.run() waits for free slots and until all of its tasks run.",
        "Starting and ending", unit="seconds", minimum=0.001, core=False,
    ),
    Knob(
        "secret_file", _names("SECRET_FILE", None), "str", "",
        "A file with the job's secret: 64 hex digits, the same on all ranks. Only its owner may "
        "have access.",
        "Starting and ending", flag="--secret-file", core=False,
    ),
    Knob(
        "grace_seconds", _names("GRACE_SECONDS", None), "float", 5.0,
        "How long ranks may take after SIGTERM, for example to write a checkpoint, before "
        "hvdliterun kills them.",
        "Starting and ending", unit="seconds", minimum=0, flag="--grace-seconds", core=False,
    ),
    # --- Stalls and dead peers
    Knob(
        "heartbeat_seconds", _names("HEARTBEAT_SECONDS", None), "float", 10.0,
        "A rank that gives no sign of life for this long counts as lost; 0 means never. A host "
        "that cannot be reached counts as lost after twice this time and a second, so a shorter "
        "outage of the network does not end the job.",
        "Stalls and dead peers", unit="seconds", minimum=0,
    ),
    Knob(
        "stall_check_time_seconds", _names("STALL_CHECK_TIME_SECONDS"), "float", 60.0,
        "Warn when an operation has waited this long for ranks that have not submitted it.",
        "Stalls and dead peers", unit="seconds", minimum=0,
        flag="--stall-check-warning-time-seconds", yaml="stall_check.warning_time_seconds",
    ),
    Knob(
        "stall_shutdown_time_seconds", _names("STALL_SHUTDOWN_TIME_SECONDS"), "float", 0.0,
        "End the job when an operation has waited this long for ranks that have not submitted it; "
        "0 means never.",
        "Stalls and dead peers", unit="seconds", minimum=0,
        flag="--stall-check-shutdown-time-seconds", yaml="stall_check.shutdown_time_seconds",
    ),
    Knob(
        "stall_check_disable", _names("STALL_CHECK_DISABLE"), "bool", False,
        "Do not look for stalled operations.",
        "Stalls and dead peers", flag="--no-stall-check", flag_off="--stall-check",
        yaml="not stall_check.enabled",
    ),
    Knob(
        "stall_dump", _names("STALL_DUMP", None), "str", "",
        "A folder for bundles. If operations stall, the job fails or hvdliterun is sent SIGQUIT, "
        "each rank writes its stacks, last operations, counters and settings there; `hvdlite "
        "explain` shows them.",
        "Stalls and dead peers", flag="--stall-dump", core=False,
    ),
    # --- Training
    Knob(
        "parameter_check", _names("PARAMETER_CHECK", None), "choice", "warn",
        "What a distributed optimizer does at its first step if ranks have different parameters.",
        "Training", choices=("warn", "error", "off"), core=False,
    ),
    Knob(
        "drift", _names("DRIFT", None), "choice", "warn",
        "What the drift guard does when ranks no longer have the same parameters, or not the same "
        "result of a reduction.",
        "Training", choices=("warn", "error", "off"), alike=True,
    ),
    Knob(
        "drift_steps", _names("DRIFT_STEPS", None), "int", 64,
        "Within how many steps the drift guard compares each parameter.",
        "Training", unit="steps", minimum=2, maximum=1_000_000, alike=True,
    ),
    Knob(
        "nan_watch", _names("NAN_WATCH", None), "bool", False,
        "Name the first tensor in host memory that reaches a reduction with a NaN or an infinity, "
        "and its rank. Reads each tensor and each result once more.",
        "Training", alike=True,
    ),
    Knob(
        "keep_memory", _names("KEEP_MEMORY", None), "bool", True,
        "With torch's DistributedOptimizer, the process keeps freed host memory for the gradients "
        "of the next step.",
        "Training", core=False,
    ),
    Knob(
        "gradient_pool", _names("GRADIENT_POOL", None), "bool", True,
        "torch's DistributedOptimizer on CPUs: gradients are allocated in memory that the ranks of "
        "a host share, and reduced where they lie, without copies. So are tensors of hvd.empty().",
        "Training", alike=True,
    ),
    Knob(
        "gradient_pool_bytes", _names("GRADIENT_POOL_BYTES", None), "int", 0,
        "The most memory of that kind that each rank uses; 0: three times its gradients, 64 MiB, "
        "and the tensors of hvd.empty(). What is beyond it is copied.",
        "Training", unit="bytes", minimum=0,
    ),
    Knob(
        "tensorflow_kernels", _names("TENSORFLOW_KERNELS", None), "bool", True,
        "Use hvdlite's own kernels inside a tf.function. Without them operations go through "
        "Python, which is slower.",
        "Training", core=False,
    ),
    # --- Watching
    Knob(
        "log_level", _names("LOG_LEVEL"), "choice", "warning",
        "The lowest severity of messages to print.",
        "Watching", choices=("trace", "debug", "info", "warning", "error", "fatal"),
        flag="--log-level", yaml="logging.level",
    ),
    Knob(
        "log_hide_time", _names("LOG_HIDE_TIME"), "bool", False,
        "Leave the time out of log lines.",
        "Watching", flag="--log-without-timestamp", flag_off="--log-with-timestamp",
        yaml="not logging.with_timestamp",
    ),
    Knob(
        "timeline", _names("TIMELINE"), "str", "",
        "The file of the timeline, a Chrome trace. DYNAMIC: start_timeline() names the file. "
        "Empty: no timeline.",
        "Watching", flag="--timeline-filename", yaml="timeline.filename",
    ),
    Knob(
        "timeline_mark_cycles", _names("TIMELINE_MARK_CYCLES"), "bool", False,
        "Mark every turn of the engine's loop in the timeline.",
        "Watching", flag="--timeline-mark-cycles", flag_off="--no-timeline-mark-cycles",
        yaml="timeline.mark_cycles",
    ),
    Knob(
        "timeline_ranks", _names("TIMELINE_RANKS", None), "choice", "0",
        "Which ranks write a timeline: rank 0, or all, each to a file of its own.",
        "Watching", choices=("0", "all"), flag="--timeline-ranks",
    ),
    Knob(
        "timeline_megabytes", _names("TIMELINE_MEGABYTES", None), "int", 1024,
        "How large the file of a timeline may become. Then the timeline ends with a warning, and "
        "the job goes on.",
        "Watching", unit="MB", minimum=1, maximum=1 << 20, flag="--timeline-megabytes",
    ),
    Knob(
        "recorder_entries", _names("RECORDER_ENTRIES", None), "int", 1024,
        "How many past collectives each rank remembers for error reports; 0 remembers none.",
        "Watching", unit="collectives", minimum=0, maximum=1 << 24,
    ),
    Knob(
        "monitor_seconds", _names("MONITOR", None), "float", 0.0,
        "How often each rank reports to the launcher; 0 means while `hvdlite top` is attached. "
        "`hvdliterun --monitor` sets it.",
        "Watching", unit="seconds", minimum=0, maximum=3600, core=False,
    ),
    Knob(
        "monitor_details", _names("MONITOR_DETAILS", None), "bool", False,
        "Rank 0's reports to the launcher also say which tensors are slow, the versions and the "
        "knobs. `hvdliterun --report` and `--metrics-file` set it.",
        "Watching", core=False,
    ),
    Knob(
        "open_ports", _names("OPEN_PORTS", None), "bool", False,
        "Start tf.data's service also where strangers reach its ports (docs/guides/data.md).",
        "Data", core=False,
    ),
    # --- Testing
    Knob(
        "debug_delay_microseconds", _names("DEBUG_DELAY_MICROSECONDS", None), "int", 0,
        "Sleep for a random time up to this at points where ranks race, for stress tests.",
        "Testing", unit="microseconds", minimum=0, maximum=10_000_000,
    ),
    Knob(
        "debug_net_algorithm", _names("DEBUG_NET_ALGORITHM", None), "choice", "auto",
        "Use this algorithm over TCP for every collective that it can carry out "
        "(docs/how-it-works/algorithms.md). auto: the fastest one for each.",
        "Testing",
        choices=("auto", "one-shot", "direct", "gather", "ring", "pairwise", "tree", "chain"),
        alike=True,
    ),
)  # fmt: skip


def by_field(field: str) -> Knob:
    """Returns the row of a field; KeyError if there is none."""
    for knob in KNOBS:
        if knob.field == field:
            return knob
    raise KeyError(field)


def is_set(field: str, environ: Mapping[str, str]) -> bool:
    """Whether the user has given this knob a value."""
    return any(knob.lookup(environ) for knob in KNOBS if knob.field == field)


def resolve(environ: Mapping[str, str]) -> dict[str, Value]:
    """Returns every knob's value. The ValueError for a bad one names the variable, the value and
    what is allowed."""
    values: dict[str, Value] = {}
    for knob in KNOBS:
        found = knob.lookup(environ)
        values[knob.field] = knob.default if found is None else knob.parse(found[1], found[0])
    return values
