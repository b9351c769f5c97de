"""The rows of the table in docs/contributing/faults.md: each fault, its effect and its proof."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from tests.worlds.faults.bed import Bed, defects, says
from tests.worlds.faults.loads import HIGH, LOW
from tests.worlds.proxies.http import Concerns, Fault, FaultProxy
from tests.worlds.waiting import wait_until

LONG = 4
"""Syncs that a fault lasts that takes time, so that it meets itself."""

Begin = Callable[[Bed, str], AbstractContextManager[object]]
"""Plays a fault on the target that is named, as long as the block lasts."""


@dataclass(frozen=True)
class Row:
    """A fault that strikes one of two targets, or all.

    ``seen`` is a pattern of the warning that the operator reads, ``condition`` what holds no
    more.  The struck target recovers within ``syncs`` of the fault's end.  It lasts for
    ``lasting`` syncs of the other target; during it Prometheus shows a load for ``load``
    replicas, None for no series at all.
    """

    name: str
    begin: Begin
    seen: str
    condition: str
    syncs: int = 3
    strikes_all: bool = False
    load: float | None = LOW
    lasting: int = 2


def on(way: str, concerns: Callable[[str], Concerns], fault: Fault) -> Begin:
    """Play a fault on what a proxy carries for the struck target, which must have met it."""

    @contextmanager
    def begin(bed: Bed, struck: str) -> Iterator[None]:
        proxy: FaultProxy = getattr(bed, way)
        with proxy.playing(fault, concerns(struck)) as playing:
            yield
            assert playing.met

    return begin


def play(bed: Bed, row: Row) -> None:
    """Prove a row.

    The struck target has too many replicas and the other too few, and both may move at once.
    While the fault lasts the struck one stays where it is, and says why; the other one goes up
    in its own time (or stays, where the fault strikes all).  Then both go where they should be,
    by themselves and in one step.
    """
    struck, other = bed.high_and_low()
    begin, before = bed.mark(), {name: bed.changes(name) for name in (struck, other)}
    with row.begin(bed, struck):
        bed.demand(struck, row.load)
        bed.demand(other, HIGH)
        for name in (struck, other) if row.strikes_all else (struck,):
            bed.wait_line(name, f"warns of {row.seen!r}", says(row.seen), begin)
            bed.wait_condition(name, row.condition, holds=False)
        if not row.strikes_all:
            bed.wait_for(other, HIGH)
        wait_until("it has lasted", lambda: len(bed.syncs(other, begin)) >= row.lasting)
        moved = {name: bed.changes(name) - before[name] for name in before}
        assert moved == {struck: 0, other: 0 if row.strikes_all else 1}
        end = bed.mark()
    bed.demand(struck, LOW)
    bed.wait_seen(struck, LOW)
    over = bed.mark()
    bed.check_punctual(other, begin, end)
    bed.wait_for(struck, LOW)
    bed.wait_for(other, HIGH)
    assert {name: bed.changes(name) - before[name] for name in before} == {struck: 1, other: 1}
    settled = bed.wait_line(
        struck,
        "is scaled",
        lambda line: line["desired_replicas"] == LOW and line.get("write", "written") == "written",
        end,
    )
    after = bed.syncs(struck, over)
    assert settled not in after or after.index(settled) < row.syncs
    bed.wait_condition(struck, row.condition, holds=True)
    assert defects(bed.daemon.lines[begin:]) == []
