"""Entries of the record: those of any decision, and of a timeline's last sync."""

from dataclasses import replace

from hypothesis import strategies as st

from autoscaler.core.decision import Decision
from autoscaler.core.extensions import Extensions
from autoscaler.core.history import ExtensionHistory, History
from autoscaler.core.step import step_of
from autoscaler.core.sync_result import Inputs, Rules, SyncResult
from autoscaler.core.target import Query, Target
from autoscaler.core.writes import WriteOutcome
from tests.core import strategies
from tests.core.builders import BASE
from tests.core.timeline import Timeline


def decided(entry: SyncResult) -> Decision:
    """Decide on the inputs of an entry, and no more."""
    return step_of(entry.rules, entry.inputs).decision


def of_last(timeline: Timeline, write: WriteOutcome | None = None) -> SyncResult:
    queries = tuple(Query(f"sum(m{index})") for index in range(len(timeline.spec.metrics)))
    target = Target("shop", timeline.spec, queries, extensions=timeline.extensions)
    return SyncResult(target, timeline.decision, write, given=timeline.inputs, flags=timeline.flags)


@st.composite
def any_rules(draw: st.DrawFn) -> Rules:
    """Draw a target that may have everything."""
    extensions = draw(st.just(Extensions()) | strategies.extensions)
    target = Target("shop", draw(strategies.specs()), (), extensions=extensions)
    return Rules(target, draw(strategies.flags))


@st.composite
def entries_of(draw: st.DrawFn, rules: Rules) -> SyncResult:
    """Draw a decision at `BASE`."""
    of, extensions = rules.target.spec, rules.target.extensions
    plain = strategies.usual_observations(of, strategies.no_gaps | strategies.some_gaps)
    seen = draw(strategies.extended_observations(of, extensions) | plain)
    if draw(st.sampled_from((False, False, True))):
        seen = replace(seen, ranges=(60.0,) * len(of.metrics))
    history = draw(st.just(History()) | st.just(History(())) | strategies.histories)
    active = ExtensionHistory(last_active=draw(st.none() | strategies.past))
    inputs = Inputs(seen, replace(history, extended=active), BASE, BASE)
    undecided = SyncResult(rules.target, None, given=inputs, flags=rules.flags)  # type: ignore[arg-type] # it is decided now
    return replace(undecided, decision=decided(undecided))


entries = any_rules().flatmap(entries_of)
"""Any decision of any target."""
pairs = any_rules().flatmap(lambda rules: st.tuples(entries_of(rules), entries_of(rules)))
"""Any two decisions of one target."""
