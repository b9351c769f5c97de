"""Records that are made quickly are the dataclasses that they were."""

import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace

import pytest

from autoscaler.core import selectors
from autoscaler.core.history import Contention, History
from autoscaler.core.observation import Gap, GapKind
from autoscaler.core.quick import bounded_cache, changed, quick


@quick
@dataclass(frozen=True, slots=True)
class Note:
    """A record with every kind of field."""

    text: str
    at: float = 0.0
    labels: dict[str, str] = field(default_factory=dict)
    why: str = field(default="", compare=False)


def test_fields_have_their_values_and_defaults() -> None:
    note = Note("a", why="b")
    assert (note.text, note.at, note.labels, note.why) == ("a", 0.0, {}, "b")
    assert note.labels is not Note("a").labels


def test_equality_and_hash_are_those_of_a_frozen_dataclass() -> None:
    assert Note("a", why="b") == Note("a", why="c") != Note("b")
    assert len({Contention(3), Contention(3), Contention(4)}) == 2
    assert replace(Note("a"), at=2.0) == Note("a", 2.0)


def test_a_changed_record_equals_the_replaced_one() -> None:
    before = History()
    other = History((), desired_replicas=4, zeroed_by_us=True, contention=Contention(6))
    for name in [each.name for each in fields(History)]:
        change = {name: getattr(other, name)}
        assert changed(before, **change) == replace(before, **change)
    assert before == History()


def test_only_a_field_of_a_quick_record_is_changed() -> None:
    with pytest.raises(AttributeError, match="no_field"):
        changed(History(), no_field=1)
    with pytest.raises(FrozenInstanceError):
        changed(Gap(GapKind.EMPTY, "no series"), detail="another")


# -- A cache of what texts of others are read as takes no more memory than it may ------------------


def uppercase() -> tuple[Callable[[str], str], list[str]]:
    """Return a function of which 1000 characters are kept, and the texts that it computed."""
    computed: list[str] = []

    @bounded_cache(1000, str.__len__)
    def upper(text: str) -> str:
        computed.append(text)
        return text.upper()

    return upper, computed


def test_the_oldest_results_are_evicted_first() -> None:
    upper, computed = uppercase()
    texts = [f"{number:0100}" for number in range(10)]
    assert [upper(text) for text in texts * 2] == texts * 2
    assert computed == texts
    upper("new".rjust(100))
    upper(texts[9])
    assert computed == [*texts, "new".rjust(100)]
    upper(texts[0])
    assert computed[-1] == texts[0]


def test_a_text_too_large_for_the_cache_evicts_nothing() -> None:
    upper, computed = uppercase()
    for _ in range(2):
        upper("small")
        upper("large" * 100)
    assert computed == ["small", "large" * 100, "large" * 100]


def test_a_failure_is_not_cached() -> None:
    @bounded_cache(1000, str.__len__)
    def read(text: str) -> str:
        raise ValueError(text)

    for _ in range(2):
        with pytest.raises(ValueError, match="text"):
            read("text")


@pytest.mark.parametrize("term", ["a", "app=web", "tier in (a)", "!x"])
def test_a_selector_takes_no_more_memory_than_the_cache_counts(term: str) -> None:
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


# -- the benchmark of the core runs.  Its figures are for people, so no time is asserted -----------


def test_the_benchmark_prints_three_figures_for_each_of_five_rows() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.core", "--repeats", "2", "--number", "3"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    heading, *rows = ran.stdout.splitlines()
    assert [len(line) >= len(heading) for line in rows] == [True] * 5
    for line in rows:
        figures = [float(figure) for figure in line[32:].split()]
        assert len(figures) == 3
        assert min(figures) > 0
