"""Texts of others: however long and odd they are, they are shown short and printable."""

import math
from dataclasses import replace

import pytest

from autoscaler.cli.planning import paragraphs
from autoscaler.core.observation import ReadFailure, Scale
from autoscaler.core.selectors import LONGEST
from autoscaler.core.series import QueryFailure, QueryResult, Series
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.writes import WriteFailure
from autoscaler.daemon import LogFormat, LogLevel
from autoscaler.rendering.explanation import explain
from autoscaler.rendering.record import whole
from tests.worlds.log import log_of
from tests.worlds.memory import T0, Memory, external, per_pod, pod

ODD = "a\n\x1b[2J\u202e[red]\u2028"
LONG = ODD + "x" * (1 << 20)
WEB = Scale(2, 2, "app=a")

GOOD = Series({"queue": LONG, LONG: "q"}, 90.0, T0)
STALE = replace(GOOD, timestamp=T0 - 900.0)
UNREAL = Series({f"{number:04}{ODD}": LONG for number in range(1000)}, math.nan, T0)
TWIN = Series({"namespace": "shop", "pod": "p", "of": LONG}, 1.0, T0)

READINGS: dict[str, QueryResult | QueryFailure] = {
    "stale-series": QueryResult([STALE]),
    "not-a-number": QueryResult([UNREAL]),
    "some-stale-series": QueryResult([GOOD, *[STALE] * 1000]),
    "ambiguous-series": QueryResult([TWIN, TWIN]),
    "query-failed": QueryFailure(LONG),
    "many-warnings": QueryResult([replace(GOOD, value=0.0)], (LONG,) * 100),
}
CLUSTER = {
    "scale-unreadable": Memory(scales={"shop/a": ReadFailure(LONG)}),
    "selector": Memory(scales={"shop/a": Scale(2, 2, LONG[:LONGEST])}),
    "write-failed": Memory(scales={"shop/a": WEB}, outcomes={"shop/a": WriteFailure(LONG)}),
    "controller": Memory(scales={"shop/a": WEB}, controllers={"shop/a": LONG}),
}


def synced(case: str) -> SyncResult:
    """Sync the one target of a case once."""
    if case in READINGS:
        world = Memory({"queue": READINGS[case]}, {"shop/a": WEB})
        world.pod_lists["shop: app=a"] = (pod("p"),)
    else:
        world = CLUSTER[case]
        world.answers["queue"] = QueryResult([GOOD])
    of_pods = case == "ambiguous-series"
    target = per_pod("shop", "a", "queue") if of_pods else external("shop", "a")
    with world.syncer() as syncer:
        syncer.sync([target], T0, 10.0)
    return world.results[-1]


@pytest.mark.parametrize("case", [*READINGS, *CLUSTER])
def test_texts_of_others_are_shown_short_and_printable(case: str) -> None:
    """Events, conditions, the explanation, the plan, the record, and the log of either form."""
    result = synced(case)
    decision = result.decision
    text = "\n".join(
        (explain(result), paragraphs([result]), log_of([result], LogLevel.DEBUG, LogFormat.CONSOLE))
    )
    shown = [event.message for event in decision.events] + text.split("\n")
    shown += [condition.message for condition in decision.conditions]
    assert any(r"\x1b[2J\u202e[red]\u2028" in line for line in shown), shown
    assert [line for line in shown if not line.isprintable()] == []
    assert max(map(len, shown)) < 10_000
    assert len(whole(result).encoded()) < 40_000
    assert len(log_of([result], LogLevel.DEBUG)) < 40_000
    if case in READINGS:  # nothing of a label of a megabyte stays with the target
        assert len(repr(decision)) < 40_000
