"""A cache of what texts of others are read as takes no more memory than it may."""

import tracemalloc

import pytest

from autoscaler.core import selectors
from autoscaler.core.quick import bounded_cache


def _characters(text: str) -> int:
    return len(text)


def test_a_result_is_kept_as_long_as_there_is_room() -> None:
    """The same argument is not computed again; the oldest results make room for new ones."""
    computed: list[str] = []

    @bounded_cache(1000, _characters)
    def upper(text: str) -> str:
        computed.append(text)
        return text.upper()

    texts = [f"{number:0100}" for number in range(10)]
    assert [upper(text) for text in texts * 2] == texts * 2
    assert computed == texts
    upper("new".rjust(100))
    upper(texts[9])
    assert computed == [*texts, "new".rjust(100)]
    upper(texts[0])
    assert computed[-1] == texts[0]


def test_what_is_too_large_for_the_cache_leaves_the_rest_in_it() -> None:
    """One large text does not put everything else out."""
    computed: list[str] = []

    @bounded_cache(1000, _characters)
    def upper(text: str) -> str:
        computed.append(text)
        return text.upper()

    for _ in range(2):
        upper("small")
        upper("large" * 100)
    assert computed == ["small", "large" * 100, "large" * 100]


def test_a_failure_is_not_kept() -> None:
    """What cannot be read is said each time, and takes no memory."""

    @bounded_cache(1000, _characters)
    def read(text: str) -> str:
        raise ValueError(text)

    for _ in range(2):
        with pytest.raises(ValueError, match="text"):
            read("text")


@pytest.mark.parametrize("term", ["a", "app=web", "tier in (a)", "!x"])
def test_a_selector_takes_no_more_memory_than_the_cache_counts(term: str) -> None:
    """Whoever may write the status of a custom resource chooses the terms."""
    text = ",".join([term] * 2000)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        read = selectors.parse(text)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not read.empty
    assert after - before < selectors._parsed_bytes(text)
