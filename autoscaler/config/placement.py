"""Where a key belongs that stands at another place."""

import functools
from collections.abc import Iterator
from typing import NamedTuple

from pydantic import BaseModel

from autoscaler.config.model_walk import aliases, inner_models
from autoscaler.config.settings_model import DocumentModel

_MOST_PLACES = 3


class KeyPlace(NamedTuple):
    """Where a key belongs, in words; ``begins_with`` is the key that leads there from here."""

    where: str
    begins_with: str | None = None


def place_of_key(key: str, model: type[BaseModel], root: type[BaseModel]) -> KeyPlace | None:
    """Say where a key belongs that ``model`` does not know; None where that is not clear.

    What is below the place where it stands comes first, then ``root``, then the top of the file.
    """
    for start in (model, root):
        places = _nearest(key, start)
        if places:
            where = f"into {' or '.join(f'`{path}`' for path in places)}"
            return KeyPlace(where, places[0].split(".")[0] if start is model else None)
    if key in aliases(DocumentModel):
        return KeyPlace("to the top of the main file")
    return None


def _nearest(key: str, root: type[BaseModel]) -> list[str]:
    """Return the places of the least depth that take a key, unless they are many."""
    places = [path for path, keys in _places(root) if key in keys]
    least = min((path.count(".") for path in places), default=0)
    nearest = [path for path in places if path.count(".") == least]
    return nearest if len(nearest) <= _MOST_PLACES else []


@functools.cache
def _places(root: type[BaseModel]) -> tuple[tuple[str, frozenset[str]], ...]:
    """List the mappings below a model by path, each with its keys."""
    return tuple(_walk(root, "", ()))


def _walk(
    model: type[BaseModel], path: str, around: tuple[type[BaseModel], ...]
) -> Iterator[tuple[str, frozenset[str]]]:
    for step, inner in inner_models(model):
        if inner not in around:
            below = f"{path}.{step}" if path else step
            yield below, frozenset(aliases(inner))
            yield from _walk(inner, below, (*around, inner))
