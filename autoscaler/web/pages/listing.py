"""What the pages with many targets have: a search, pages of a hundred, links to other choices."""

import math
from collections.abc import Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

from autoscaler.core.text import printable

PAGE_SIZE = 100
RIGHT_PAGE = "the number of a page"
_LONGEST_SEARCH = 200
_MOST_DIGITS = 8

_R = TypeVar("_R")


def search_of(text: str) -> str:
    """Return what an address searches for."""
    return printable(text.strip(), _LONGEST_SEARCH)


def page_number(text: str) -> int | None:
    """Return the number of a page; None for what is none."""
    is_number = text.isascii() and text.isdecimal() and len(text) < _MOST_DIGITS
    return max(1, int(text)) if is_number else None


def address(path: str, asked: Mapping[str, object], usual: Mapping[str, object]) -> str:
    """Return the address that asks for something; what is usual is left out."""
    query = {key: one for key, one in asked.items() if one != usual[key]}
    return f"{path}?{urlencode(query)}" if query else path


def is_found(key: str, words: Sequence[str]) -> bool:
    """Return whether a target's key has all of these words, which are casefolded."""
    return all(word in key.casefold() for word in words)


class ListPage(NamedTuple, Generic[_R]):
    """A page of rows: the number of its first row, and its own of so many."""

    rows: Sequence[_R]
    first: int
    page: int
    pages: int


def part_of(rows: Sequence[_R], page: int) -> ListPage[_R]:
    """Return a page of rows, the last one if there are fewer."""
    pages = max(1, math.ceil(len(rows) / PAGE_SIZE))
    number = min(page, pages)
    begin = (number - 1) * PAGE_SIZE
    return ListPage(rows[begin : begin + PAGE_SIZE], begin + 1, number, pages)
