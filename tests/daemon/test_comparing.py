"""Targets in shadow are compared while the daemon runs, and what became known is handed in."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from autoscaler import clock
from autoscaler.agreement.comparison import Agreement
from autoscaler.agreement.database import AgreementRow, AgreementWriter, DirectoryAgreement
from autoscaler.core.extensions import Extensions
from autoscaler.core.sync_result import SyncResult
from autoscaler.daemon import comparing
from autoscaler.daemon.comparing import Comparer, open_comparing
from tests.core.builders import BASE, average, external, spec
from tests.core.hpa_beside import HpaBeside
from tests.web.pages.reading import config_of
from tests.worlds.announced import Announced

SPEC = spec(external(average("10")), maximum=20)
LESS = spec(external(average("10")), maximum=5)
EQUAL, OTHER = Agreement.EQUAL, Agreement.CONFIGURATION


class Rows(list[AgreementRow]):
    """What was handed in, in place of the writer."""

    put = list[AgreementRow].append

    def of(self, kind: Agreement) -> list[AgreementRow]:
        """Return the rows of one kind."""
        return [one for one in self if one.stretch.agreement is kind]


def results(seconds: float, queue: float = 100) -> Iterator[SyncResult]:
    """Play a target in shadow beside an HPA with a smaller maximum; yield our syncs."""
    beside = HpaBeside(SPEC, lambda *_: {"queue": queue}, theirs=LESS, replicas=3)
    for until in range(15, int(seconds), 15):
        beside.play(until)
        yield beside.sides[1].line.result


@contextmanager
def comparer() -> Iterator[tuple[Comparer, Rows]]:
    """Give one, and what it hands in; at the end it is closed."""
    rows = Rows()
    one = Comparer(cast("AgreementWriter", rows))
    yield one, rows
    one.close()


def test_stretches_that_follow_each_other_are_one() -> None:
    """The first row begins it, each later one extends it, and no second is told twice."""
    with comparer() as (one, rows):
        for result in results(900):
            one.report(result)
    others = rows.of(OTHER)
    assert [row.begins for row in others] == [True, *[False] * (len(others) - 1)]
    assert {row.stretch.begin for row in others} == {others[0].stretch.begin}
    assert sum(row.seconds for row in others) == others[-1].stretch.end - others[0].stretch.begin
    assert {row.target for row in rows} == {"shop/Deployment/web"}
    for before, after in pairwise(rows):
        assert after.stretch.end - after.seconds == before.stretch.end


def test_a_row_has_the_counts_meanwhile() -> None:
    """Of the object, which the HPA has set, and of the free run, which needs ten."""
    with comparer() as (one, rows):
        for result in results(900):
            one.report(result)
        assert one.free_count("shop/Deployment/web") == 10
        assert one.free_count("shop/Deployment/other") is None
    assert (rows[-1].replicas, rows[-1].free) == (5, 10)


def test_what_is_left_is_told_at_the_end() -> None:
    """The last period is not known before; it is as far as it can be."""
    with comparer() as (one, rows):
        played = list(results(300))
        for result in played:
            one.report(result)
        before = rows[-1].stretch.end
    assert before < played[-1].decision.stamp
    assert rows[-1].stretch.end == played[-1].decision.stamp


@pytest.mark.parametrize("change", ["live", "removed"])
def test_a_target_that_leaves_the_shadow_is_told_to_the_end(change: str) -> None:
    """Then it is forgotten: nothing is told twice at the end."""
    with comparer() as (one, rows):
        for result in results(300):
            one.report(result)
        live = replace(result.target, extensions=Extensions())
        one.configure([result.target])
        told = len(rows)
        one.configure([live] if change == "live" else [])
        if change == "live":
            one.report(replace(result, decision=replace(result.decision, shadow=False)))
        assert rows[-1].stretch.end == result.decision.stamp
        assert len(rows) > told
        told = len(rows)
        assert one.free_count(result.target.key) is None
    assert len(rows) == told


def test_a_live_target_is_not_compared() -> None:
    """Nor a target in shadow whose sync could not keep what was decided from."""
    with comparer() as (one, rows):
        for result in results(300):
            one.report(replace(result, given=None))
            one.report(replace(result, decision=replace(result.decision, shadow=False)))
    assert rows == []


@pytest.mark.parametrize("kept", [True, False])
def test_it_is_kept_in_the_state_directory_or_a_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    """The first outlives the daemon, the other one goes with it."""
    monkeypatch.setattr(clock, "wall", lambda: BASE + 900)
    state = tmp_path / "state"
    config = config_of(tmp_path, stateDirectory=str(state) if kept else None)
    told = Announced()
    with ExitStack() as stack:
        one, reader = open_comparing(config, told.announcements, stack)
        assert one is not None
        assert reader is not None
        for result in results(900):
            one.report(result)
    if kept:
        (found,) = DirectoryAgreement(state).of(["shop/Deployment/web"], 0, 9).values()
        assert found.sums[OTHER].seconds > 200
    assert (state / "agreement.db").exists() is kept


def test_without_any_directory_nothing_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon runs all the same."""

    def fails(_: str) -> Path:
        raise OSError(28, "no room")

    monkeypatch.setattr(comparing, "temporary_folder", fails)
    with ExitStack() as stack:
        config = config_of(tmp_path, stateDirectory=None)
        found = open_comparing(config, Announced().announcements, stack)
    assert found.free_count("any") is None
    assert found == (None, None)
