"""The rows of knobs.KNOBS about training."""

from __future__ import annotations

from hvdlite.base.knob import Knob, names

TRAINING: tuple[Knob, ...] = (
    Knob(
        "parameter_check", names("PARAMETER_CHECK", None), "choice", "warn",
        "What a distributed optimizer does at its first step if ranks have different parameters.",
        "Training", choices=("warn", "error", "off"), core=False,
    ),
    Knob(
        "drift", names("DRIFT", None), "choice", "warn",
        "What the drift guard does when ranks no longer have the same parameters, or not the same "
        "result of a reduction.",
        "Training", choices=("warn", "error", "off"), alike=True,
    ),
    Knob(
        "drift_steps", names("DRIFT_STEPS", None), "int", 64,
        "Within how many steps the drift guard compares each parameter.",
        "Training", unit="steps", minimum=2, maximum=1_000_000, alike=True,
    ),
    Knob(
        "nan_watch", names("NAN_WATCH", None), "bool", False,
        "Name the first tensor in host memory that reaches a reduction with a NaN or an infinity, "
        "and its rank. Reads each tensor and each result once more.",
        "Training", alike=True,
    ),
    Knob(
        "keep_memory", names("KEEP_MEMORY", None), "bool", True,
        "With torch's DistributedOptimizer, the process keeps freed host memory for the gradients "
        "of the next step.",
        "Training", core=False,
    ),
    Knob(
        "gradient_pool", names("GRADIENT_POOL", None), "bool", True,
        "torch's DistributedOptimizer on CPUs: gradients are allocated in memory that the ranks of "
        "a host share, and reduced where they lie, without copies. So are tensors of hvd.empty().",
        "Training", alike=True,
    ),
    Knob(
        "gradient_pool_bytes", names("GRADIENT_POOL_BYTES", None), "int", 0,
        "The most memory of that kind that each rank uses; 0: three times its gradients, 64 MiB, "
        "and the tensors of hvd.empty(). What is beyond it is copied.",
        "Training", unit="bytes", minimum=0,
    ),
    Knob(
        "tensorflow_kernels", names("TENSORFLOW_KERNELS", None), "bool", True,
        "Use hvdlite's own kernels inside a tf.function. Without them operations go through "
        "Python, which is slower.",
        "Training", core=False,
    ),
)  # fmt: skip
