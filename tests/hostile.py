"""Texts that make a regular expression go over the same characters again and again."""

import random
import re
from collections.abc import Iterator
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

_MOST_PREFIXES, _MOST_PUMPS = 40, 14
_SUFFIXES = ("", "\x01", "x")
_OF_A_CATEGORY = {
    op.CATEGORY_DIGIT: "7",
    op.CATEGORY_WORD: "w",
    op.CATEGORY_SPACE: " ",
    op.CATEGORY_NOT_DIGIT: "x",
    op.CATEGORY_NOT_WORD: "-",
    op.CATEGORY_NOT_SPACE: "x",
}


def texts(pattern: str, length: int) -> Iterator[str]:
    """Yield texts of about a length that begin as a match does and then repeat a part of one."""
    chance = random.Random(pattern)  # noqa: S311 - no secret
    tree = _parser.parse(pattern)
    samples = {_sample(tree, chance) for _ in range(12)}
    starts = sorted({sample[:end] for sample in samples for end in range(len(sample) + 1)}, key=len)
    alphabet = sorted(set("".join(samples)) | set(_characters(tree)))
    alphabet += [f"\\{quote}" for quote in "\"'" if quote in alphabet]
    pumps = [
        *_some(alphabet, chance, _MOST_PUMPS * 2 // 3),
        *_some(starts[1:], chance, _MOST_PUMPS),
    ]
    for start in ["", *_some(starts[1:], chance, _MOST_PREFIXES)]:
        for pump in dict.fromkeys(pumps[:_MOST_PUMPS]):
            for end in _SUFFIXES[:2]:
                yield f"{start}{pump * (length // len(pump))}{end}"


def _some(of: list[str], chance: random.Random, most: int) -> list[str]:
    return of if len(of) <= most else chance.sample(of, most)


def _sample(tree: Any, chance: random.Random) -> str:
    """Return a text that the parsed pattern is likely to match; lookarounds are left out."""
    return "".join(_part(kind, value, chance) for kind, value in tree)


def _part(kind: Any, value: Any, chance: random.Random) -> str:  # noqa: PLR0911 - one of each
    if kind is op.LITERAL:
        return chr(value)
    if kind is op.ANY:
        return "z"
    if kind is op.NOT_LITERAL:
        return "z" if value != ord("z") else "y"
    if kind is op.IN:
        return chance.choice(_of_a_class(value))
    if kind is op.BRANCH:
        return _sample(chance.choice(value[1]), chance)
    if kind is op.SUBPATTERN:
        return _sample(value[3], chance)
    if kind is op.ATOMIC_GROUP:
        return _sample(value, chance)
    if kind in {op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT}:
        least, most, inner = value
        times = min(most, max(least, chance.randint(0, 2)))
        return "".join(_sample(inner, chance) for _ in range(times))
    return ""


def _of_a_class(items: Any) -> list[str]:
    if items[0][0] is op.NEGATE:
        return ["z", " ", "0"]
    found = []
    for kind, value in items:
        if kind is op.LITERAL:
            found.append(chr(value))
        elif kind is op.RANGE:
            found.append(chr(value[0]))
        elif kind is op.CATEGORY:
            found.append(_OF_A_CATEGORY[value])
    return found


def _characters(tree: Any) -> Iterator[str]:
    """Yield the characters of a pattern, except those of excluding classes."""
    for kind, value in tree:
        if kind is op.LITERAL:
            yield chr(value)
        elif kind is op.IN:
            yield from _of_a_class(value)
        elif kind is op.BRANCH:
            for branch in value[1]:
                yield from _characters(branch)
        elif kind is op.SUBPATTERN:
            yield from _characters(value[3])
        elif kind in {op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT}:
            yield from _characters(value[2])


def pattern_of(pattern: re.Pattern[Any]) -> str:
    """Return the source of a pattern, one of bytes as text."""
    source = pattern.pattern
    return source if isinstance(source, str) else source.decode("latin-1")
