"""Whether a value has the types that its class declares: what is read from JSON may have others."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from operator import attrgetter
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

_Value = TypeVar("_Value")
_Check = Callable[[Any], bool]

_LONGEST_TEXT = 65_536
_LARGEST = 10**28
"""Above the largest quantity in nano-units."""


def typed(value: _Value) -> _Value:
    """Return a dataclass whose fields have their types and bounded sizes; raises ValueError."""
    kind: Any = type(value)
    if not _check_of(kind)(value):
        raise ValueError(f"a field of the {type(value).__name__} has another type, or is too large")
    return value


@cache
def _check_of(hint: Any) -> _Check:
    origin, arguments = get_origin(hint), get_args(hint)
    inner = [_check_of(each) for each in arguments if each is not ...]
    if origin in {Union, UnionType}:
        return lambda value: any(check(value) for check in inner)
    if origin is tuple and arguments[-1] is ...:
        return lambda value: type(value) is tuple and all(map(inner[0], value))
    if origin is tuple:
        return lambda value: (
            len(value) == len(inner)
            and all(check(each) for check, each in zip(inner, value, strict=True))
        )
    if origin is Mapping:
        of_key, of_value = inner
        return lambda value: all(map(of_key, value)) and all(map(of_value, value.values()))
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        checks = [(attrgetter(each.name), _check_of(hints[each.name])) for each in fields(hint)]
        return lambda value: type(value) is hint and all(check(get(value)) for get, check in checks)
    return _OF_PLAIN.get(hint, lambda value: isinstance(value, hint))


_OF_PLAIN: dict[Any, _Check] = {
    str: lambda value: isinstance(value, str) and len(value) <= _LONGEST_TEXT,
    int: lambda value: type(value) is int and -_LARGEST <= value <= _LARGEST,
    float: lambda value: type(value) in {int, float} and -_LARGEST <= value <= _LARGEST,
}
