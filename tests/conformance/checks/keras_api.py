"""hvdlite.keras has values instead of tensors, so its Api is training alone."""

from __future__ import annotations

import hvdlite.keras
from checks.api import Api
from checks.keras_run import KerasRun


class KerasApi(Api):
    hvd = hvdlite.keras
    Run = KerasRun


API = KerasApi()
