"""What a program or a file says about a part of a strategy, checked against the table of what is
known. Errors are ValueErrors that begin with the path of the key."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

from hvdlite.adapter.outer import OuterSGD
from hvdlite.adapter.strategy.choice import Choice
from hvdlite.adapter.strategy.known import KNOWN, UNNAMED, Known, called


def chosen(part: str, given: Any, path: str = "") -> Choice:
    """The choice for a part. `path`: of the key, if it is not the part."""
    path, known = path or part, KNOWN[part]
    name, options = _name_and_options(path, given, known, UNNAMED.get(part))
    check_name(f"{path}: there is no", name, known)
    return _checked(path, name, options, known[name])


def check_name(there_is_no: str, name: Any, known: Iterable[str]) -> None:
    """A ValueError with the nearest known name, and all of them."""
    known = list(known)
    if name not in known:
        near = difflib.get_close_matches(str(name), known, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{there_is_no} {name!r}.{hint} Known: {', '.join(known)}.")


def value_of(path: str, annotation: str, value: Any) -> Any:
    """The value in a form that can be hashed, if it is of the type that a parameter's annotation
    names."""
    if annotation in _DEEPER:
        return _DEEPER[annotation](path, value)
    words, fits = _TYPES[annotation]
    if not fits(value):
        raise ValueError(f"{path}: expected {words}, found {value!r}")
    return tuple(value) if isinstance(value, (list, tuple)) else value


def _name_and_options(
    path: str, given: Any, known: Known, unnamed: str | None
) -> tuple[Any, dict[str, Any]]:
    if isinstance(given, Choice):  # of another strategy
        given = given.plain()
    if isinstance(given, str):
        return given, {}
    if isinstance(given, Mapping):
        options = dict(given)
        name = options.pop("name", unnamed)
        if name is not None:
            return name, options
    some = next(iter(known))
    raise ValueError(
        f"{path}: expected a name such as {some!r}, or a mapping with one such as "
        f"{{'name': {some!r}}}, found {given!r}. A strategy is a description that serves several "
        "optimizers, so it holds no objects"
    )


def _checked(
    path: str, name: str, given: Mapping[str, Any], function: Callable[..., Any]
) -> Choice:
    parameters = inspect.signature(function).parameters
    defaults = {
        name: each.default for name, each in parameters.items() if each.default is not each.empty
    }
    options = {}
    for option, value in given.items():
        check_name(f"{path}: {name} has no option", option, parameters)
        options[option] = value_of(f"{path}.{option}", parameters[option].annotation, value)
    for option in parameters:
        if option not in defaults and option not in options:
            raise ValueError(f"{path}.{option} is missing: {name} needs it")
    everything = tuple((option, {**defaults, **options}[option]) for option in parameters)
    choice = Choice(name, everything, tuple(defaults.items()))
    try:
        called(choice, function)
    except ValueError as error:  # which begins with the option, most often
        option = str(error).partition("=")[0]
        raise ValueError(f"{path}{f'.{option}' if option in parameters else ''}: {error}") from None
    return choice


# ---- types


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return _is_text(value) or (isinstance(value, (list, tuple)) and all(map(_is_text, value)))


#: by annotation: in words, and what fits
_TYPES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "float": ("a number", _is_number),
    "float | None": ("a number, or nothing", lambda value: value is None or _is_number(value)),
    "int": ("a whole number", _is_whole),
    "int | str": ("a whole number, or a time such as '10s'",
                  lambda value: _is_whole(value) or _is_text(value)),
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "str": ("a text", _is_text),
    "str | Sequence[str]": ("a pattern of names, or a list of them", _are_texts),
}  # fmt: skip


def _candidates(path: str, value: Any) -> tuple[Choice, ...] | None:
    if value is None:
        return None
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{path}: expected a list of compressions, found {value!r}")
    return tuple(chosen("compression", each, f"{path}[{i}]") for i, each in enumerate(value))


def _outer(path: str, value: Any) -> OuterSGD:
    if isinstance(value, OuterSGD):
        return value
    if not isinstance(value, Mapping):
        raise ValueError(
            f"{path}: expected the options of hvd.OuterSGD, such as {{lr: 0.7}}, found {value!r}. "
            "For another outer optimizer call hvd.DiLoCo()"
        )
    known = {field.name: str(field.type) for field in fields(OuterSGD)}
    for option in value:
        check_name(f"{path}: OuterSGD has no option", option, known)
    return OuterSGD(**{k: value_of(f"{path}.{k}", known[k], v) for k, v in value.items()})


#: annotations of options that have options
_DEEPER: dict[str, Callable[[str, Any], Any]] = {
    "Sequence[Method | Cast] | None": _candidates,
    "Outer": _outer,
}
