"""Where a key belongs that stands at another place."""

import functools
from collections.abc import Iterator
from typing import NamedTuple

from pydantic import BaseModel

from autoscaler.config.model_walk import aliases, inner_models
from autoscaler.config.settings_model import DocumentModel

_MOST_PLACES = 5


class KeyPlace(NamedTuple):
    """Where a key belongs, in words; ``begins_with`` are the keys that lead there from here."""

    where: str
    begins_with: tuple[str, ...] = ()


def place_of_key(key: str, model: type[BaseModel], root: type[BaseModel]) -> KeyPlace | None:
    """Say where a key belongs that ``model`` does not know; None where that is not clear.

    What is below the place where it stands comes first, then ``root``, then the top of the file.
    """
    below = _nearest(key, model)
    if below:
        first = (path.split(".")[0].removesuffix("[]") for path in below)
        return KeyPlace(_in(below), tuple(dict.fromkeys(first)))
    if model is not root and key in aliases(root):
        return KeyPlace("at the top" if root is DocumentModel else "in the target itself")
    elsewhere = _nearest(key, root)
    if elsewhere:
        return KeyPlace(_in(elsewhere))
    return KeyPlace("at the top of the main file") if key in aliases(DocumentModel) else None


def _in(paths: list[str]) -> str:
    named = [f"`{path}`" for path in paths]
    listed = ", ".join(named[:-1])
    return f"in {listed} or {named[-1]}" if listed else f"in {named[-1]}"


def _nearest(key: str, root: type[BaseModel]) -> list[str]:
    """Return the places of the least depth that take a key, unless they are many."""
    # Far from a query its keys are words that are meant otherwise.
    places = [path for path, keys in _places(root) if key in keys and not path.endswith(".query")]
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
