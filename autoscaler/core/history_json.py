"""Histories as JSON, as the fields of `autoscaler.core.history` and their types say.

A history is an object by field name, without the fields that have their default; a dataclass
within is an array of its fields in order.  When read, a field that is missing has its default, and
one that is not known, by name or beyond the last, is ignored: so differ older and newer versions.
"""

import json
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from autoscaler.core.history import Between, History, UnixTime

_FINITE = (-1e300, 1e300)
_DEFAULTS = tuple((one.name, one.default) for one in fields(History))

_Reader = Callable[[Any], Any]


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))


def _in_order(value: object) -> list[object]:
    kind: Any = type(value)
    return [getattr(value, name) for name in _names(kind)]


_encoder = json.JSONEncoder(separators=(",", ":"), default=_in_order)


def to_json(history: History, **instead: object) -> str:
    """Write a history, with ``instead`` in place of its fields of these names.

    The text is ASCII: what a server sent may hold lone surrogates.
    """
    changed = {
        name: one for name, default in _DEFAULTS if (one := getattr(history, name)) != default
    }
    return _encoder.encode(changed | instead)


def history_reader(earliest: float, latest: float) -> Callable[[str], History]:
    """Return what reads a history from JSON, where nothing has happened outside these instants.

    It raises ValueError for what no history holds, with the path of the field, or RecursionError.
    """
    readers = _field_readers(History, (earliest, latest))

    def read(text: str) -> History:
        found = json.loads(text)
        if type(found) is not dict:
            raise ValueError(f"{found!r:.60} cannot be")
        return History(**{name: readers[name](found[name]) for name in found if name in readers})

    return read


def _field_readers(kind: Any, past: tuple[float, float]) -> dict[str, _Reader]:
    """Return what reads the fields of a dataclass, and puts their names before an error."""

    def reader(name: str, hint: object) -> _Reader:
        read = _reader(hint, past)

        def read_field(value: object) -> object:
            try:
                return read(value)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None

        return read_field

    hints = get_type_hints(kind, include_extras=True)
    return {name: reader(name, hint) for name, hint in hints.items()}


def _reader(hint: Any, past: tuple[float, float]) -> _Reader:
    """Return what reads a value of a type; it raises ValueError for any other."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        read = _reader(next(one for one in args if one is not NoneType), past)
        return lambda value: None if value is None else read(value)
    if origin is tuple:
        return _tuple(args, past)
    if is_dataclass(hint):
        return _dataclass(hint, past)
    if origin is Annotated:
        return _plain(args[0], _bounds(args[1], past))
    return partial(hint) if issubclass(hint, Enum) else _plain(hint, _FINITE)


def _bounds(mark: UnixTime | Between, past: tuple[float, float]) -> tuple[float, float]:
    if isinstance(mark, Between):
        return mark.least, mark.most
    return past if mark is UnixTime.PAST else _FINITE


def _plain(kind: type, bounds: tuple[float, float]) -> _Reader:
    kinds = {int, float} if kind is float else {kind}
    least, most = bounds

    def read(value: Any) -> object:
        if type(value) not in kinds or not (kind is str or least <= value <= most):
            raise ValueError(f"{value!r:.60} cannot be")
        return value

    return read


def _tuple(kinds: tuple[Any, ...], past: tuple[float, float]) -> _Reader:
    readers = [_reader(one, past) for one in kinds if one is not ...]
    many = kinds[-1] is ...

    def read(value: object) -> tuple[object, ...]:
        if type(value) is not list or not (many or len(value) == len(readers)):
            raise ValueError(f"{value!r:.60} cannot be")
        if many:
            return tuple(map(readers[0], value))
        return tuple([reader(one) for reader, one in zip(readers, value, strict=True)])

    return read


def _dataclass(kind: Any, past: tuple[float, float]) -> _Reader:
    readers = _field_readers(kind, past).values()
    needed = sum(one.default is MISSING for one in fields(kind))

    def read(value: object) -> object:
        if type(value) is not list or len(value) < needed:
            raise ValueError(f"{value!r:.60} cannot be")
        return kind(*[reader(one) for reader, one in zip(readers, value, strict=False)])

    return read
