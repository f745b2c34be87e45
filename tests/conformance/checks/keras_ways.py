"""The Keras and the backend that the configuration is named after are the ones at work."""

from __future__ import annotations

import hvdlite.base.ops
from checks import ALWAYS, check
from checks.here import Here
from checks.keras_here import backend, hvd, keras


@check(tags=[ALWAYS], seconds=60)
def keras_and_its_backend_are_those_of_the_configuration(here: Here) -> None:
    assert here.environment.get("TF_USE_LEGACY_KERAS", "0") == (
        "1" if keras.__version__.startswith("2.") else "0"
    )
    assert (
        keras.backend.backend() == backend() == here.environment.get("KERAS_BACKEND", "tensorflow")
    )
    made = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    assert isinstance(made, keras.optimizers.SGD), type(made)
    assert hvd.allreduce(1.0, op=hvdlite.base.ops.Sum) == here.size
