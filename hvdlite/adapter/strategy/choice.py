"""A part of a strategy: a way by its name, with all of its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

Options = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, repr=False)
class Choice:
    """What `compression: {name: dgc, density: 0.01}` says. `defaults`: what the options are that
    were not given."""

    name: str
    options: Options  # all of them, with values that can be hashed
    defaults: Options

    def __getitem__(self, option: str) -> Any:
        return dict(self.options)[option]

    def changed(self) -> dict[str, Any]:
        """The options that are not as by default."""
        defaults = dict(self.defaults)
        return {
            name: value
            for name, value in self.options
            if name not in defaults or value != defaults[name]
        }

    def plain(self) -> dict[str, Any]:
        """With all options, as values that YAML knows."""
        return _named(self.name, dict(self.options))

    def __repr__(self) -> str:
        changed = self.changed()
        return repr(_named(self.name, changed) if changed else self.name)


def _named(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, **{option: _plain(value) for option, value in options.items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, Choice):
        return value.plain()
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
