"""Histories as lines: what one process shows is what another goes on with."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler import clock
from autoscaler.core.history import History, ReadingGap, Recommendation, shifted
from autoscaler.rendering.history_lines import DisplayedHistories, FormatError, lines, read
from autoscaler.sync.ports import NoHistoryStore
from autoscaler.sync.state import Histories
from tests.adapters.store.histories import histories, nth
from tests.adapters.store.opening import T0, same
from tests.narrowing import known

ODD = History(
    (Recommendation(3, -math.inf, first=True), Recommendation(4, math.inf)),
    gaps=(ReadingGap("External queue", since=0.0, until=math.inf),),
)


@given(st.dictionaries(st.text(max_size=4), histories | st.just(ODD), max_size=3), st.booleans())
def test_every_history_is_read_as_it_was_written(known: dict[str, History], leads: bool) -> None:
    sent = list(lines(T0, known, leads=leads))
    assert [line.count(b"\n") for line in sent] == [1] * (len(known) + 1)
    shown = read(sent, known.keys())
    assert (shown.now, shown.leads, shown.histories.keys()) == (T0, leads, known.keys())
    assert all(same(shown.histories[key], known[key]) for key in known)


def test_only_requested_targets_are_read_and_nan_survives() -> None:
    history = History((Recommendation(3, math.nan),))
    found = read(lines(T0, {"a": history, "b": nth(2)}, leads=True), {"a", "c"}).histories
    assert found.keys() == {"a"}
    recommendations = known(found["a"].recommendations)
    assert math.isnan(recommendations[0].time)


HEADER = b'{"version":2,"now":1.0,"leads":true,"targets":1}\n'


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ([], "it broke off before the first line"),
        ([b"<html>\n"], "a line that is not JSON"),
        ([b"[" * 100_000], "a line that is not JSON"),
        ([b'{"version":1,"now":1.0,"leads":true}\n'], "version 2 are needed, and it has 1"),
        ([b'{"version":2,"now":"1","leads":true}\n'], "not a header"),
        ([HEADER, b"half a li"], "a line that is not JSON"),
        ([HEADER], "it broke off after 0 of 1 targets"),
        ([HEADER, b'{"target":"a","history":{"desired_replicas":"x"}}\n'], "a: desired_replicas"),
        ([HEADER, b'{"target":"a"}\n'], "a: "),
        ([HEADER, b'{"target":"a","history":{"mood":1}}\n'], "a: mood is not known"),
    ],
)
def test_a_malformed_page_is_refused(sent: list[bytes], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read(sent, {"a"})


@pytest.mark.parametrize(("ahead", "moved"), [(0.0, 0.0), (1.9, 0.0), (-3600.0, 3600.0)])
def test_histories_move_with_the_difference_of_the_clocks(ahead: float, moved: float) -> None:
    shown = DisplayedHistories(T0 + ahead, leads=True, histories={"a": nth(3)})
    assert shown.by_our_clock(T0 - 1.0, T0) == {"a": shifted(nth(3), moved)}


def test_a_snapshot_uses_the_clock_as_it_is_set() -> None:
    known = Histories(NoHistoryStore(), {"a": nth(3)}, clock.Steps(T0, 100.0))
    assert known.snapshot(T0 + 5.0, 105.0) == {"a": nth(3)}
    assert known.snapshot(T0 + 3605.0, 105.0) == {"a": shifted(nth(3), 3600.0)}
    assert known.follow_clock(T0 + 3605.0, 105.0) == (3600.0, 3600.0)
    known.put("a", replace(nth(4)), 3600.0)
    assert known.snapshot(T0 + 3606.0, 106.0) == {"a": nth(4)}
