"""Data of the core as JSON, by the names of its fields: in the state, the record and `/histories`.

A field with its default is omitted, and a missing field has its default; where a value may have one
of several classes, the key `type` names it (`_TYPES`). Unknown fields and values of other types are
refused. A file that older versions would misread gets a new version: see the schemas of
`persistence` and `rendering.history_lines`.
"""

import json
from collections.abc import Callable
from dataclasses import is_dataclass
from enum import StrEnum
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin

from cattrs import BaseValidationError, Converter, transform_error
from cattrs.cols import (
    is_namedtuple,
    namedtuple_dict_structure_factory,
    namedtuple_dict_unstructure_factory,
)
from cattrs.errors import ForbiddenExtraKeysError
from cattrs.fns import identity
from cattrs.gen import make_dict_structure_fn

from autoscaler.core.decision import Calculation, MetricFailure
from autoscaler.core.history import IntegerBounds, UnixTime
from autoscaler.core.observation import (
    Gap,
    PodSamples,
    ReadFailure,
    Scale,
    UncheckedControl,
    Values,
)
from autoscaler.core.spec import MetricSpec
from autoscaler.core.writes import AcceptedWrite, SkippedWrite, WriteConflict, WriteFailure

T = TypeVar("T")
Hook = Callable[[Any, Any], Any]

_TYPES: dict[type, str] = {
    **{kind: kind.type for kind in get_args(MetricSpec)},
    PodSamples: "pods",
    Values: "values",
    Gap: "gap",
    Scale: "scale",
    ReadFailure: "unavailable",
    UncheckedControl: "unchecked",
    Calculation: "calculation",
    MetricFailure: "failure",
    AcceptedWrite: "written",
    WriteConflict: "superseded",
    WriteFailure: "failed",
    SkippedWrite: "notWritten",
}
"""The value of `type` of each class of a union."""

_WORDS: dict[type, str] = {int: "an integer", float: "a number", str: "a text"}
_WORDS |= {bool: "true or false", NoneType: "null"}
_FINITE = (-1e300, 1e300)


class UnreadableError(ValueError):
    """The text is damaged, or of another version; the message says what is wrong, and where."""


def dumps(value: object) -> str:
    """Write data as ASCII JSON, equal data as equal texts; infinities and NaN are as in `json`."""
    return _encode(_converter.unstructure(value))


def plain(value: object) -> Any:
    """Return the data that `dumps` writes, as a part of a larger document."""
    return _converter.unstructure(value)


def loads(kind: type[T], text: str | bytes) -> T:
    """Read what `dumps` wrote; raises UnreadableError."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"invalid JSON: {error}") from None
    return reader_of(kind)(document)


def reader_of(kind: type[T], past: tuple[float, float] | None = None) -> Callable[[object], T]:
    """Return a function that makes a value from the result of `plain`; it raises UnreadableError.

    With ``past`` instants must be finite, and past ones (`UnixTime.PAST`) must be within it, in
    Unix seconds.
    """
    converter = _converter if past is None else _made(past)
    read: Hook = converter.get_structure_hook(kind)

    def checked(document: object) -> T:
        try:
            value: T = read(document, kind)
        except BaseValidationError as error:
            raise UnreadableError(_sentence(error)) from None
        except (ValueError, RecursionError) as error:
            raise UnreadableError(str(error)) from None
        return value

    return checked


def is_same(value: object, other: object) -> bool:
    """Return whether two values are equal; NaN equals NaN."""
    return dumps(value) == dumps(other)


def _sentence(error: BaseValidationError) -> str:
    text, _, path = transform_error(error, "", _decoding_error)[0].rpartition(" @ ")
    return f"{path.lstrip('.').replace('.', ': ')}: {text}" if path else text


def _decoding_error(error: BaseException, _: Any) -> str:
    if isinstance(error, KeyError):
        return "it is missing"
    if isinstance(error, ForbiddenExtraKeysError):
        return f"{', '.join(sorted(error.extra_fields)):.60} is not known to this version"
    return str(error) if isinstance(error, ValueError) else "it is of another type"


# -- the converter -------------------------------------------------------------------------------


def _made(past: tuple[float, float] | None) -> Converter:
    made: Any = Converter(omit_if_default=True, forbid_extra_keys=True)
    for kind in _WORDS:
        made.register_structure_hook(kind, _exactly(kind))
    made.register_structure_hook(StrEnum, _word)
    made.register_unstructure_hook_func(_is_text, identity)
    made.register_structure_hook_factory(is_dataclass, _dataclass)
    made.register_structure_hook_factory(partial(_is_a, tuple), _tuple)
    made.register_structure_hook_factory(is_namedtuple, namedtuple_dict_structure_factory)
    made.register_unstructure_hook_factory(is_namedtuple, namedtuple_dict_unstructure_factory)
    made.register_structure_hook_factory(
        partial(_is_a, Annotated), lambda kind: _bounded(kind, past)
    )
    made.register_unstructure_hook_factory(_is_choice, _written_choice)
    made.register_structure_hook_factory(_is_choice, _read_choice)
    return cast("Converter", made)


def _is_a(origin: Any, kind: Any) -> bool:
    return get_origin(kind) is origin


def _is_text(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, StrEnum)


def _wrong(value: object, right: str) -> ValueError:
    return ValueError(f"{value!r:.60} is not {right}")


def _exactly(kind: type, bounds: tuple[float, float] | None = None) -> Hook:
    """Return a reader for values of exactly this type, within inclusive bounds, if any."""
    kinds = {int, float} if kind is float else {kind}
    right = _WORDS[kind] if bounds is None else f"{_WORDS[kind]} from {bounds[0]} to {bounds[1]}"

    def read(value: Any, _: Any) -> Any:
        if type(value) not in kinds or not (bounds is None or bounds[0] <= value <= bounds[1]):
            raise _wrong(value, right)
        return value

    return read


def _bounded(kind: Any, past: tuple[float, float] | None) -> Hook:
    base, mark = get_args(kind)
    if isinstance(mark, IntegerBounds):
        return _exactly(base, (mark.least, mark.most))
    return _exactly(base, past if past is None or mark is UnixTime.PAST else _FINITE)


def _word(value: Any, kind: Any) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise _wrong(value, f"one of {', '.join(kind)}") from None


def _dataclass(kind: Any, converter: Converter) -> Hook:
    structure = make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True)

    def read(value: Any, _: Any) -> Any:
        if type(value) is not dict:
            raise _wrong(value, "an object")
        return structure(value, kind)

    return read


def _tuple(kind: Any, converter: Converter) -> Hook:
    kinds = get_args(kind)
    has_any_length = kinds[-1] is ...
    hooks = [(converter.get_structure_hook(part), part) for part in kinds if part is not ...]
    right = "a list" if has_any_length else f"a list of {len(hooks)}"

    def read(value: Any, _: Any) -> Any:
        if type(value) is not list or not (has_any_length or len(value) == len(hooks)):
            raise _wrong(value, right)
        if has_any_length:
            hook, part = hooks[0]
            return tuple([hook(item, part) for item in value])
        return tuple([hook(item, part) for (hook, part), item in zip(hooks, value, strict=True)])

    return read


# -- one of several classes ----------------------------------------------------------------------


def _choices(kind: Any) -> list[Any]:
    return [part for part in get_args(kind) if part is not NoneType]


def _is_choice(kind: Any) -> bool:
    return get_origin(kind) in {Union, UnionType} and len(_choices(kind)) > 1


def _plain_choice(kind: Any) -> Any:
    """Return the only type that is not a dataclass; JSON could not distinguish two."""
    return next((part for part in _choices(kind) if part not in _TYPES), NoneType)


def _written_choice(kind: Any, converter: Converter) -> Callable[[Any], Any]:
    named = [part for part in _choices(kind) if part in _TYPES]
    hooks = {part: (converter.get_unstructure_hook(part), _TYPES[part]) for part in named}
    plainly = converter.get_unstructure_hook(_plain_choice(kind))

    def write(value: Any) -> Any:
        if type(value) not in hooks:
            return value if value is None else plainly(value)
        hook, name = hooks[type(value)]
        return {"type": name, **hook(value)}

    return write


def _read_choice(kind: Any, converter: Converter) -> Hook:
    named = [part for part in _choices(kind) if part in _TYPES]
    hooks = {_TYPES[part]: (converter.get_structure_hook(part), part) for part in named}
    other = _plain_choice(kind)
    plainly, optional = converter.get_structure_hook(other), NoneType in get_args(kind)

    def read(value: Any, _: Any) -> Any:
        if type(value) is not dict:
            return None if value is None and optional else plainly(value, other)
        if str(value.get("type")) not in hooks:
            raise _wrong(value.get("type"), f"one of {', '.join(hooks)}, which `type` names")
        hook, part = hooks[value["type"]]
        return hook({name: item for name, item in value.items() if name != "type"}, part)

    return read


_converter = _made(None)
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
