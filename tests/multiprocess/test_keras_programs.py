"""hvdlite.keras in whole programs: Keras' jit on torch."""

from __future__ import annotations

import pytest
from installed import needs_installed
from launched import Job

needs_installed("keras", "torch")

# Without inductor, whose C++ compiler would take longer than all the rest: what is compiled, and
# what is left out, is the same.
_COMPILED = """
import functools
import numpy as np, torch, keras, hvdlite.keras as hvd
torch.set_num_threads(1)
torch.compile = functools.partial(torch.compile, backend="eager")
hvd.init()
x = np.random.default_rng(hvd.rank()).random((16, 3), np.float32)
weights = []
for jit in (False, True):
    keras.utils.set_random_seed(1)
    net = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    net.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), "mse", jit_compile=jit)
    net.fit(x, x[:, :2], batch_size=8, shuffle=False, verbose=0)
    weights += net.get_weights()
np.testing.assert_allclose(weights[2], weights[0], rtol=1e-6)
np.testing.assert_allclose(weights[3], weights[1], rtol=1e-6)
everyones = [hvd.allgather(w[None]) for w in weights]
assert all((each == each[0]).all() for each in everyones)
print("equal", flush=True)
"""


@pytest.mark.costly
@pytest.mark.watchdog(300)
def test_keras_jit_on_torch_leaves_hvdlite_out_without_a_warning(job: Job) -> None:
    done = job.end_well(
        "-np", "2", "python", job.script(_COMPILED), KERAS_BACKEND="torch", TF_CPP_MIN_LOG_LEVEL="2"
    )
    assert done.stdout.decode().count("equal") == 2
    assert "Dynamo" not in done.stderr.decode()
