"""Makes decisions fast: frozen dataclasses that are cheap to create, and bounded caches."""

from collections.abc import Callable, Hashable
from dataclasses import field, fields, make_dataclass
from functools import cache, wraps
from itertools import islice
from operator import attrgetter
from typing import Any, TypeVar

_Record = TypeVar("_Record")
_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


def quick(record: type[_Record]) -> type[_Record]:
    """Let a frozen dataclass set its fields directly when it is created.

    Without this, it calls `object.__setattr__` for each field: a sync in `benchmarks.replay_speed`
    takes 1.4 times as long. For records that every sync creates, and for samples and series, since
    a sync creates many. The type checker reads ``frozen=True`` and prevents assignments.
    """
    plain = make_dataclass(
        record.__name__,
        [
            (
                entry.name,
                entry.type,
                field(default=entry.default, default_factory=entry.default_factory),
            )
            for entry in fields(record)  # type: ignore[arg-type]
        ],
    )
    type.__setattr__(record, "__init__", plain.__init__)  # type: ignore[misc]
    del record.__setattr__, record.__delattr__
    return record


def changed(record: _Record, **changes: Any) -> _Record:
    """Return a `quick` record with other fields: `dataclasses.replace` in a third of the time."""
    made_of: Any = type(record)
    copy: _Record = made_of(*_values_of(made_of)(record))
    for name, value in changes.items():
        setattr(copy, name, value)
    return copy


@cache
def _values_of(record: Any) -> Callable[[Any], tuple[Any, ...]]:
    return attrgetter(*(entry.name for entry in fields(record)))


def bounded_cache(
    most_bytes: int, size_of: Callable[[_Key], int]
) -> Callable[[Callable[[_Key], _Value]], Callable[[_Key], _Value]]:
    """Cache the latest results of a function of one argument, within a number of bytes.

    ``size_of`` estimates the bytes of an argument and its result. A result larger than an eighth of
    ``most_bytes`` is not cached, nor are exceptions. Thread-safe.
    """

    def decorate(function: Callable[[_Key], _Value]) -> Callable[[_Key], _Value]:
        kept: dict[_Key, _Value] = {}
        total = 0

        @wraps(function)
        def cached(key: _Key) -> _Value:
            nonlocal total
            try:
                return kept[key]
            except KeyError:
                value = function(key)
            size = size_of(key)
            if size > most_bytes // 8:
                return value
            if total + size > most_bytes:
                # The older half is dropped at once, so that a full cache costs little at each call.
                for old in tuple(islice(kept, (len(kept) + 1) // 2)):
                    kept.pop(old, None)
                total = sum(map(size_of, tuple(kept)))
            kept[key] = value
            total += size
            return value

        return cached

    return decorate
