"""What a knob is: its names, its type, and how its text is read.

The build reads this file before anything is installed, so it imports the standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

Value = bool | int | float | str

_TRUE = ("true", "yes", "on")
_FALSE = ("false", "no", "off")


def names(name: str, horovod: str | None = "") -> tuple[str, ...]:
    """HVDLITE_<name> and Horovod's variable: of the same name, of another name, or none (None)."""
    if horovod is None:
        return (f"HVDLITE_{name}",)
    return (f"HVDLITE_{name}", f"HOROVOD_{horovod or name}")


@dataclass(frozen=True)
class Knob:
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
