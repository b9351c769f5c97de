"""Histories as JSON, as the fields of `autoscaler.core.history` and their types say.

A dataclass is an object by field name without the fields that have their default; a tuple is an
array.  When read, a field that is missing has its default, and one of an unknown name is ignored:
older and newer versions differ by such fields.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from autoscaler.core.history import Between, History, UnixTime

_FINITE = (-1e300, 1e300)

_Reader = Callable[[Any], Any]


def _object(value: object) -> Mapping[str, object]:
    kind: Any = type(value)
    return {
        name: one for name, default in _defaults(kind) if (one := getattr(value, name)) != default
    }


@cache
def _defaults(kind: Any) -> tuple[tuple[str, object], ...]:
    return tuple((one.name, one.default) for one in fields(kind))


_encoder = json.JSONEncoder(separators=(",", ":"), default=_object)


def to_json(history: History) -> str:
    """Write a history in ASCII: what a server sent may hold lone surrogates."""
    return _encoder.encode(history)


def history_reader(earliest: float, latest: float) -> Callable[[str], History]:
    """Return what reads a history from JSON, where nothing has happened outside these instants.

    It raises ValueError for what no history holds, with the path of the field, or RecursionError.
    """
    read = _reader(History, (earliest, latest))

    def read_text(text: str) -> History:
        history: History = read(json.loads(text))
        return history

    return read_text


def _reader(hint: Any, past: tuple[float, float]) -> _Reader:
    """Return what reads a value of a type; it raises ValueError for any other."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        read = _reader(next(one for one in args if one is not NoneType), past)
        return lambda value: None if value is None else read(value)
    if origin is tuple:
        return _array(args, past)
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


def _array(kinds: tuple[Any, ...], past: tuple[float, float]) -> _Reader:
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
    hints = get_type_hints(kind, include_extras=True)
    readers = {name: _reader(hint, past) for name, hint in hints.items()}

    def read(value: object) -> object:
        if type(value) is not dict:
            raise ValueError(f"{value!r:.60} cannot be")
        known = {}
        for name, one in value.items():
            if name in readers:
                try:
                    known[name] = readers[name](one)
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None
        try:
            return kind(**known)
        except TypeError as error:  # a field without a default is missing
            raise ValueError(str(error)) from None

    return read
