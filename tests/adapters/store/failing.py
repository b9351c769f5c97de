"""Directories that hold something, and stores that can keep nothing or can again."""

import re
from pathlib import Path

from autoscaler.core.history import History
from tests.adapters.store.histories import decided_at, nth
from tests.adapters.store.opening import LONG, Sayings, kept_in, running


def fill(directory: Path, targets: int = 20) -> dict[str, History]:
    """Keep some targets, and return their histories."""
    histories = {f"shop/Deployment/{one}": nth(one) for one in range(targets)}
    with running(directory) as (store, _):
        store.keep([(key, one, decided_at(2)) for key, one in histories.items()])
    return histories


def assert_goes_on_from_memory(directory: Path, words: str) -> None:
    """Find that a store takes in everything, keeps nothing and says why, by a pattern."""
    sayings = Sayings()
    with running(directory, sayings) as (store, resumption):
        assert resumption.histories == {}
        store.keep([("shop/Deployment/web", nth(1), decided_at(1))])
        assert store.intend("shop/Deployment/web", nth(2)).result(LONG) is None
        store.shift(3600.0)
        store.drop(["shop/Deployment/web"])
    assert re.search(words, sayings.wait(ok=False))
    assert sayings.states == [False]
    assert store.errors >= 1


def assert_keeps(directory: Path, sayings: Sayings) -> None:
    """Find that what is kept from now on is there after a restart."""
    with running(directory, sayings) as (store, _):
        store.intend("shop/Deployment/new", nth(7)).result(LONG)
        sayings.wait(ok=True)
    assert kept_in(directory)["shop/Deployment/new"] == nth(7)
