"""hvdlite.tensorflow.SyncBatchNormalization, of Keras 3 and of tf_keras."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import hvdlite.tensorflow as hvd
from checks import check
from checks.here import Here, raises
from checks.tensorflow_api import MODES, array, run


@check(mode=MODES)
def batch_normalization_is_that_of_the_whole_batch(here: Here, mode: str) -> None:
    rng = np.random.default_rng(5)
    rows = [2 + r for r in here.ranks]
    data = tf.constant(rng.standard_normal((sum(rows), 3, 4)) + 100, tf.float32)
    mine = slice(sum(rows[: here.rank]), sum(rows[: here.rank + 1]))
    synced, plain = hvd.SyncBatchNormalization(), tf.keras.layers.BatchNormalization()
    for layer in (synced, plain):
        layer.build(data.shape)

    def forward(layer: Any, x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=True)
            loss = tf.reduce_sum(y**3)
        return y, tape.gradient(loss, x)

    y, dx = run(mode, lambda x: forward(synced, x), data[mine])
    all_y, all_dx = forward(plain, data)
    np.testing.assert_allclose(array(y), array(all_y)[mine], atol=1e-3)
    np.testing.assert_allclose(array(dx), array(all_dx)[mine], atol=2e-2)
    np.testing.assert_allclose(
        np.asarray(synced.moving_mean), np.asarray(plain.moving_mean), rtol=1e-5
    )
    np.testing.assert_allclose(
        np.asarray(synced.moving_variance), np.asarray(plain.moving_variance), rtol=1e-3
    )
    for fused in (True, None):
        with raises(ValueError, "fused"):
            hvd.SyncBatchNormalization(fused=fused)
