"""A strategy in YAML: a file, or the text itself."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

# 1e-3, which YAML 1.1 reads as a text
_FLOAT = re.compile(r"[-+]?\d+[eE][-+]?\d+")


def load(path_or_text: str | os.PathLike[str]) -> tuple[Any, str]:
    """What the YAML says, and where it is. A string with a line break or with `: ` is the text."""
    given = os.fspath(path_or_text)
    is_text = isinstance(path_or_text, str) and ("\n" in given or ": " in given)
    text, source = (given, "the text") if is_text else (Path(given).read_text(), given)
    try:
        import yaml
    except ImportError:
        raise ImportError("hvd.Strategy.from_yaml needs PyYAML: pip install pyyaml") from None

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # a resolver belongs to a class
        pass

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789"))
    try:
        return yaml.load(text, Loader), source  # noqa: S506  # a SafeLoader
    except yaml.YAMLError as error:
        raise ValueError(f"{source} is not YAML: {' '.join(str(error).split())}") from None
