"""Rate limits across a change of leader, by two real daemons: nothing unseen frees anything.

The leader and somebody by hand change counts while the standby is stopped by SIGSTOP; it comes
back, the leader is killed, and the load turns round.  Whatever the standby made of the sum that
it found, its own writes keep to the policy.
"""

import os
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import NamedTuple

from tests.daemon.leadership.shop import Shop, rules
from tests.worlds.counts import Counts, Seen
from tests.worlds.waiting import let_pass

PODS, PERIOD = 2, 8.0
"""What the policy permits in the direction that is judged, and in how many seconds."""

SYNC = 1.0
START = 6


class Case(NamedTuple):
    """What happens to a workload while the standby is stopped, and the load after the takeover."""

    up: bool
    """Which direction is judged; the other is free."""
    hand: int | None
    """The count that somebody sets first."""
    loads: tuple[int, ...]
    """What the leader is asked for, one after another."""
    after: int


CASES = {
    "leader-up": Case(up=False, hand=None, loads=(10, 14), after=1),
    "hand-up": Case(up=False, hand=23, loads=(21,), after=1),
    "hand-down": Case(up=True, hand=1, loads=(3,), after=20),
    "hand-back": Case(up=True, hand=4, loads=(6,), after=20),
}


BURST, AT_MOST = "burst", 14
"""A workload with a window of five minutes, whose burst only the leader sees."""


def behavior(case: Case) -> dict[str, object]:
    """Return the rules of a workload: strict in the direction that is judged."""
    strict, free = rules(PODS, round(PERIOD)), rules(100, 1)
    up, down = (strict, free) if case.up else (free, strict)
    return {"scaleUp": up, "scaleDown": down}


BEHAVIORS = {name: behavior(case) for name, case in CASES.items()} | {BURST: {}}
ELECTION = {"leaseDuration": "2s", "renewDeadline": "1500ms", "retryPeriod": "300ms"}


def most_within(counts: Sequence[Seen], case: Case, seconds: float) -> int:
    """Return the largest change in the judged direction within so many seconds."""
    sign = 1 if case.up else -1
    steps = [(at, sign * (new - old)) for (_, old), (at, new) in pairwise(counts)]
    return max(
        sum(step for at, step in steps if begin <= at < begin + seconds and step > 0)
        for begin, _ in steps
    )


def test_a_standby_that_was_away_keeps_the_leaders_rates(shop: Shop) -> None:
    """Its writes and the leader's before it keep to the policy, and to the window of a burst."""
    shop.open(BEHAVIORS, START)
    with ExitStack() as stack:
        leader = stack.enter_context(shop.daemon("left", ELECTION, tolerance=0))
        shop.wait_held("left")
        standby = stack.enter_context(shop.daemon("right", ELECTION, tolerance=0))
        standby.wait_event("started")
        counts = stack.enter_context(Counts(shop.api, shop.namespace))
        # What the leader did not see before it led keeps it still for one period of a policy.
        let_pass(PERIOD)
        os.kill(standby.pid, signal.SIGSTOP)
        judged_from = {}
        shop.load(BURST, AT_MOST)
        counts.wait_for(BURST, AT_MOST)
        shop.load(BURST, START)
        for name, case in CASES.items():
            if case.hand is not None:
                shop.set_by_hand(name, case.hand)
                counts.wait_for(name, case.hand)
            judged_from[name] = len(counts.seen[name]) - 1
            for load in case.loads:
                shop.load(name, load)
                counts.wait_for(name, load)
        os.kill(standby.pid, signal.SIGCONT)
        standby.wait_for("the suspension", lambda line: line["event"] == "not_watched")
        let_pass(2 * SYNC)
        leader.kill()
        for name, case in CASES.items():
            shop.load(name, case.after)
        shop.wait_held("right")
        for name, case in CASES.items():
            counts.wait_for_other(name, case.loads[-1])
        let_pass(2 * SYNC)
    for name, case in CASES.items():
        ours = counts.seen[name][judged_from[name] :]
        # A look is a moment late now and then: two steps of one period may seem closer.
        assert most_within(ours, case, PERIOD - 2 * SYNC) <= PODS, (name, ours)
    assert max(count for _, count in counts.seen[BURST]) == counts.last(BURST)
