"""Frozen data as JSON, as the fields of its classes and their types say.

A dataclass is an array of its fields in order; where a field may hold one of several classes it is
``{"Name": [...]}``.  When read, a field that is missing at the end has its default, and one beyond
the last is ignored: so differ older and newer versions.  A new field is therefore the last, and
has a default.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from autoscaler.core.history import Between, UnixTime

_FINITE = (-1e300, 1e300)

Reader = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Checks:
    """Which numbers can be: instants that have passed lie within ``past`` (Unix seconds).

    Infinities, and NaN where it is no instant, can be only if not ``finite``.
    """

    past: tuple[float, float] = _FINITE
    finite: bool = True


# -- writing -------------------------------------------------------------------------------------


@cache
def names_of(kind: Any) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass that are written: all but the derived ones."""
    return tuple(one.name for one in fields(kind) if one.init)


def in_order(value: object) -> list[object]:
    """Return the fields of a dataclass in order, for a JSON encoder."""
    kind: Any = type(value)
    return [getattr(value, name) for name in names_of(kind)]


def encoder_of(root: Any) -> json.JSONEncoder:
    """Return what writes values of the type ``root``; defaults at the end are left out.

    The text is ASCII: what a server sent may hold lone surrogates.
    """
    alternatives = _alternatives(root)

    def default(value: object) -> object:
        kind: Any = type(value)
        written = in_order(value)
        for least in reversed(_defaults(kind)):
            if written[-1] != least:
                break
            written.pop()
        return {kind.__name__: written} if kind in alternatives else written

    return json.JSONEncoder(separators=(",", ":"), default=default)


@cache
def _defaults(kind: Any) -> tuple[object, ...]:
    return tuple(
        one.default if one.default_factory is MISSING else MISSING
        for one in fields(kind)
        if one.init
    )


def _alternatives(root: Any) -> frozenset[type]:
    """Return the dataclasses within a type that stand somewhere for one of several types."""
    found: set[type] = set()
    seen: set[Any] = set()
    waiting = [root]
    while waiting:
        hint = waiting.pop()
        if hint in seen:
            continue
        seen.add(hint)
        members = [one for one in get_args(hint) if one not in {NoneType, ...}]
        if get_origin(hint) in {Union, UnionType} and len(members) > 1:
            found.update(one for one in members if _is_dataclass(one))
        waiting += [one for one in members if not isinstance(one, UnixTime | Between)]
        if _is_dataclass(hint):
            hints = get_type_hints(hint, include_extras=True)
            waiting += [hints[name] for name in names_of(hint)]
    return frozenset(found)


def _is_dataclass(hint: Any) -> bool:
    return is_dataclass(hint)


# -- reading -------------------------------------------------------------------------------------


def field_readers(kind: Any, checks: Checks) -> dict[str, Reader]:
    """Return what reads the fields of a dataclass, and puts their names before an error."""

    def reader(name: str, hint: object) -> Reader:
        read = reader_of(hint, checks)

        def read_field(value: object) -> object:
            try:
                return read(value)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None

        return read_field

    hints = get_type_hints(kind, include_extras=True)
    return {name: reader(name, hints[name]) for name in names_of(kind)}


def reader_of(hint: Any, checks: Checks = Checks()) -> Reader:
    """Return what makes a value of a type from what `json` read.

    It raises ValueError for any other value, with the path of the field.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        return _union([one for one in args if one is not NoneType], checks)
    if origin is tuple:
        return _tuple(args, checks)
    if origin is not None and issubclass(origin if isinstance(origin, type) else type, Mapping):
        return _mapping(reader_of(args[1], checks))
    if _is_dataclass(hint):
        return _dataclass(hint, checks)
    if origin is Annotated:
        return _plain(args[0], _bounds(args[1], checks))
    return _class(hint, checks)


def _class(hint: Any, checks: Checks) -> Reader:
    if hint is NoneType:
        return _nothing
    if issubclass(hint, Enum):
        return partial(hint)
    if issubclass(hint, tuple):
        kinds = tuple(get_type_hints(hint).values())
        read = _tuple(kinds, checks)
        return lambda value: hint(*read(value))
    return _plain(hint, _FINITE if checks.finite else None)


def _nothing(value: object) -> None:
    if value is not None:
        raise _impossible(value)


def _impossible(value: object) -> ValueError:
    return ValueError(f"{value!r:.60} cannot be")


def _union(kinds: list[Any], checks: Checks) -> Reader:
    if len(kinds) == 1:
        read = reader_of(kinds[0], checks)
        return lambda value: None if value is None else read(value)
    tagged: dict[str, Reader] = {
        one.__name__: reader_of(one, checks) for one in kinds if _is_dataclass(one)
    }
    others = [reader_of(one, checks) for one in kinds if not _is_dataclass(one)]

    def read_one(value: Any) -> object:
        if value is None:
            return None
        if type(value) is dict and len(value) == 1 and (name := next(iter(value))) in tagged:
            return tagged[name](value)
        for other in others:
            return other(value)
        raise _impossible(value)

    return read_one


def _bounds(mark: UnixTime | Between, checks: Checks) -> tuple[float, float] | None:
    if isinstance(mark, Between):
        return mark.least, mark.most
    if mark is UnixTime.PAST:
        return checks.past
    return _FINITE if checks.finite else None


def _plain(kind: type, bounds: tuple[float, float] | None) -> Reader:
    kinds = {int, float} if kind is float else {kind}

    def read(value: Any) -> object:
        if type(value) not in kinds:
            raise _impossible(value)
        if bounds is not None and kind is not str and not bounds[0] <= value <= bounds[1]:
            raise _impossible(value)
        return value

    return read


def _mapping(read: Reader) -> Reader:
    def read_all(value: object) -> dict[str, object]:
        if type(value) is not dict:
            raise _impossible(value)
        return {name: read(one) for name, one in value.items()}

    return read_all


def _tuple(kinds: tuple[Any, ...], checks: Checks) -> Reader:
    many = kinds[-1] is ...
    readers = [reader_of(one, checks) for one in kinds if one is not ...]

    def read(value: object) -> tuple[object, ...]:
        if type(value) is not list or not (many or len(value) == len(readers)):
            raise _impossible(value)
        if many:
            return tuple(map(readers[0], value))
        return tuple([reader(one) for reader, one in zip(readers, value, strict=True)])

    return read


def _dataclass(kind: Any, checks: Checks) -> Reader:
    readers = field_readers(kind, checks).values()
    needed = sum(
        one.default is MISSING and one.default_factory is MISSING
        for one in fields(kind)
        if one.init
    )

    def read(value: object) -> object:
        found = value.get(kind.__name__) if type(value) is dict else value
        if type(found) is not list or len(found) < needed:
            raise _impossible(value)
        return kind(*[reader(one) for reader, one in zip(readers, found, strict=False)])

    return read
