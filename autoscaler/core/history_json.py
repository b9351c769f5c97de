"""Histories as JSON, as the fields of `autoscaler.core.history` and their types say.

A history is an object by field name, without the fields that have their default; what is within is
as in `autoscaler.core.typed_json`, with all fields.  When read, a field that is missing has its
default, and one that is not known is ignored: so differ older and newer versions.
"""

import json
from collections.abc import Callable
from dataclasses import fields

from autoscaler.core.history import History
from autoscaler.core.typed_json import Checks, field_readers, in_order

_DEFAULTS = tuple((one.name, one.default) for one in fields(History))

_encoder = json.JSONEncoder(separators=(",", ":"), default=in_order)


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
    readers = field_readers(History, Checks((earliest, latest)))

    def read(text: str) -> History:
        found = json.loads(text)
        if type(found) is not dict:
            raise ValueError(f"{found!r:.60} cannot be")
        return History(**{name: readers[name](found[name]) for name in found if name in readers})

    return read
