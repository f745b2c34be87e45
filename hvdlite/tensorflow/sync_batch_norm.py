"""Batch normalization over the batches of all ranks, for the Keras that tf.keras is: version 3 or
tf_keras."""

from __future__ import annotations

import inspect
from typing import Any

import tensorflow as tf

from hvdlite.base.ops import Sum
from hvdlite.job.basics import size
from hvdlite.tensorflow.ops import allreduce, do_not_convert

__all__ = ["SyncBatchNormalization"]

# By what it overrides: tf_keras does not tell its version where tf.keras is.
_IS_OF_KERAS_2 = (
    "reduction_axes" in inspect.signature(tf.keras.layers.BatchNormalization._moments).parameters
)


class SyncBatchNormalization(tf.keras.layers.BatchNormalization):  # type: ignore[misc]
    """As tf.keras.layers.BatchNormalization; while training, mean and variance are those of all
    ranks' batches, whose sizes may differ."""

    def __init__(self, fused: bool | None = False, **kwargs: Any) -> None:
        if fused in (True, None):
            raise ValueError(
                f"SyncBatchNormalization does not support fused={fused}: the fused kernel keeps "
                "its statistics to itself."
            )
        if _IS_OF_KERAS_2:
            kwargs["fused"] = False  # in Keras 3 there is no such thing
        super().__init__(**kwargs)

    def get_config(self) -> dict[str, Any]:
        config: dict[str, Any] = super().get_config()
        config.pop("fused", None)
        return config

    @do_not_convert
    def _moments(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The mean and variance by which Keras normalizes while training: `inputs`, and then

        (mask) in Keras 3, (reduction_axes, keep_dims, mask) in Keras 2."""
        mean, variance = super()._moments(inputs, *args, **kwargs)
        if size() == 1:
            return mean, variance
        channels = tf.size(mean)
        count = tf.cast(tf.size(inputs) // channels, mean.dtype)
        mask = kwargs.get("mask", args[-1] if args else None)
        if mask is not None and not isinstance(mask, bool):
            rest = tf.size(inputs) // channels // tf.size(mask)
            count = tf.reduce_sum(tf.cast(mask, mean.dtype)) * tf.cast(rest, mean.dtype)
        # An empty batch has no mean; it counts for nothing.
        mine = [tf.where(count > 0, m, tf.zeros_like(m)) for m in (mean, variance)]
        shape = tf.shape(mean)
        flat = [tf.reshape(m, [-1]) for m in mine]
        sums = allreduce(tf.concat([flat[0] * count, [count]], 0), op=Sum, name=f"{self.name}.mean")
        everyones, total = sums[:-1] / sums[-1], sums[-1]
        # In two steps: the variance of a small spread around a large mean stays exact.
        spread = (flat[1] + tf.square(flat[0] - everyones)) * count
        variances = allreduce(spread, op=Sum, name=f"{self.name}.variance") / total
        return tf.reshape(everyones, shape), tf.reshape(variances, shape)
