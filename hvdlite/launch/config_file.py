"""`--config-file`: horovodrun's YAML layout sets what the same flags would set. Flags win.

params:        {fusion_threshold_mb: 32, cycle_time_ms: 10}
timeline:      {filename: f.json, mark_cycles: true}
stall_check:   {enabled: true, warning_time_seconds: 120}
logging:       {level: INFO}
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from hvdlite.base import knobs
from hvdlite.launch import flags, foreign_flags

# Maps each key to a knob (by the name of the flag), or to a flag that has no effect here.
_KNOBS = {
    tuple(knob.yaml.removeprefix("not ").split(".")): knob for knob in knobs.KNOBS if knob.yaml
}
_FOREIGN = {
    ("params", "hierarchical_allgather"): "--hierarchical-allgather",
    ("autotune", "bayes_opt_max_samples"): "--autotune-bayes-opt-max-samples",
    ("autotune", "gaussian_process_noise"): "--autotune-gaussian-process-noise",
    ("library_options", "num_nccl_streams"): "--num-nccl-streams",
    ("library_options", "gloo_timeout_seconds"): "--gloo-timeout-seconds",
}
# Horovod's own example has this key, and Horovod does not read it.
_IGNORED = {("logging", "hide_timestamp")}
_CONTROLLERS = ("gloo", "mpi")


def load(path: str) -> dict[str, Any]:
    """Returns the file's content. Raises ValueError if it is no YAML mapping, and OSError if it
    cannot be read."""
    text = flags.read_text(path)
    try:
        import yaml
    except ImportError:
        raise ValueError("--config-file needs PyYAML: pip install pyyaml") from None
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ValueError(
            f"{path}: expected sections as in `params: {{cycle_time_ms: 10}}`, found {content!r}."
        )
    return content


def apply(content: Mapping[str, Any], arguments: argparse.Namespace, path: str) -> None:
    """Sets the `arguments` that the file has and no flag has set. ValueError names the key and what
    is allowed."""
    known = {*_KNOBS, *_FOREIGN, *_IGNORED}
    for section, values in content.items():
        if section == "controller":
            if values not in _CONTROLLERS:
                raise ValueError(
                    f"{path}: controller: {values!r} is not allowed: expected one of "
                    f"{', '.join(_CONTROLLERS)}."
                )
            arguments.mode = arguments.mode or values
            continue
        keys = [key for of, key in known if of == section]
        if not keys:
            sections = sorted({of for of, _ in known} | {"controller"})
            raise ValueError(
                f"{path}: there is no section {section!r}, only {', '.join(sections)}."
            )
        if values is None:
            continue
        if not isinstance(values, dict):
            raise ValueError(
                f"{path}: {section} has to be a mapping of {', '.join(sorted(keys))}; found "
                f"{values!r}."
            )
        for key, value in values.items():
            if key not in keys:
                raise ValueError(
                    f"{path}: {section} has no key {key!r}, only {', '.join(sorted(keys))}."
                )
            _apply(section, key, value, arguments, path)


def _apply(section: str, key: str, value: Any, arguments: argparse.Namespace, path: str) -> None:
    if value is None or (section, key) in _IGNORED:
        return
    if (section, key) in _FOREIGN:
        foreign = next(
            each for each in foreign_flags.WITHOUT_EFFECT if _FOREIGN[section, key] in each.flags
        )
        if value is not False and getattr(arguments, foreign.destination) is None:
            setattr(arguments, foreign.destination, value)
        return
    knob = _KNOBS[section, key]
    source = f"{path}: {section}.{key}"
    if knob.is_switch:
        if not isinstance(value, bool):
            raise ValueError(f"{source}={value!r} is not allowed: expected true or false.")
        text = "1" if value != knob.yaml.startswith("not ") else "0"
    elif isinstance(value, (bool, list, dict)):
        raise ValueError(f"{source}={value!r} is not allowed: expected a text or a number.")
    else:
        try:
            text = flags.knob_value(knob, source)(str(value))
        except argparse.ArgumentTypeError as error:
            message = str(error)
            raise ValueError(
                message if message.startswith(source) else f"{source}: {message}"
            ) from None
    destination = f"knob_{knob.field}"
    if getattr(arguments, destination) is None:
        setattr(arguments, destination, text)
