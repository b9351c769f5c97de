"""Last decisions are read back, also while a daemon writes them, and never at its expense."""

from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.adapters.store import Unreadable, last_decisions
from autoscaler.core.decision import Decision, Zone
from autoscaler.core.observation import Gap, GapKind, Unavailable
from tests.store.histories import decision, nth
from tests.store.opening import DATABASE, LONG, assert_tells, running

ABOVE_MAX = replace(
    decision(1),
    zone=Zone.ABOVE_MAX,
    reason="above the maximum",
    metrics=(),
    combination=None,
    stabilization=None,
    limit=None,
    desired=2,
)
UNKNOWN = replace(
    ABOVE_MAX, zone=Zone.UNKNOWN, scale=Unavailable("forbidden"), desired=0, reason=""
)
FAILED = decision(1, Gap(GapKind.EMPTY, "the answer is empty"))


@pytest.mark.parametrize(
    "made",
    [decision(3), decision(90), replace(decision(90), written=True), ABOVE_MAX, UNKNOWN, FAILED],
    ids=["no change", "a change", "written", "to a bound", "no scale", "no answer"],
)
def test_a_decision_is_read_back(tmp_path: Path, made: Decision) -> None:
    """While the daemon runs, and after a restart of it that decides nothing."""
    with running(tmp_path) as (store, _):
        store.keep([("web", nth(1), made)])
        store.intend("web", nth(2)).result(LONG)
        kept = last_decisions(tmp_path)
        assert not isinstance(kept, Unreadable)
        assert_tells(kept["web"], made)
    with running(tmp_path) as (store, _):
        store.intend("other", nth(2)).result(LONG)
    kept = last_decisions(tmp_path)
    assert not isinstance(kept, Unreadable)
    assert kept.keys() == {"web"}
    assert_tells(kept["web"], made)


def test_the_last_decision_is_the_one_that_is_read(tmp_path: Path) -> None:
    """One that says the same has its own time."""
    with running(tmp_path) as (store, _):
        for one in (decision(3), decision(90), replace(decision(90), time=5.0)):
            store.keep([("web", nth(1), one)])
            store.intend("web", nth(2)).result(LONG)
    kept = last_decisions(tmp_path)
    assert not isinstance(kept, Unreadable)
    assert_tells(kept["web"], replace(decision(90), time=5.0))


def test_a_directory_without_decisions(tmp_path: Path) -> None:
    """It is told which file cannot be read, and nothing is made."""
    missing = last_decisions(tmp_path)
    assert missing == Unreadable(
        f"{tmp_path / DATABASE} cannot be read: unable to open database file"
    )
    assert list(tmp_path.iterdir()) == []
    (tmp_path / DATABASE).write_text("no database\n" * 100)
    broken = last_decisions(tmp_path)
    assert isinstance(broken, Unreadable)
    assert "file is not a database" in broken.message
