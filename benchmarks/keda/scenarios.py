"""What happens to the queues, and what both sides made of it."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks import fleet
from benchmarks.command import Report
from benchmarks.keda import pairs as paired
from benchmarks.keda.pairs import FALLBACK, KEDA, SIDES, Pair, Times
from benchmarks.keda.stage import Stage, at_work
from benchmarks.landings import Change

MESSAGES = 200
REPLICAS = -(-MESSAGES // fleet.PER_REPLICA)
"""What 200 messages at 30 ask for: 7."""
SOME_MESSAGES = 100
SOME_REPLICAS = -(-SOME_MESSAGES // fleet.PER_REPLICA)
"""What 100 messages at 30 ask for: 4."""
PINNED = 5
"""The count of the annotation paused-replicas."""

PAUSE: Mapping[str, Mapping[str, str]] = {
    KEDA: {"all": "autoscaling.keda.sh/paused", "count": "autoscaling.keda.sh/paused-replicas"},
    paired.OURS: {"all": "autoscaler/paused", "count": "autoscaler/paused-replicas"},
}
"""The annotations of both sides."""

_LEAVING, _FULL, _ASLEEP = (
    "first message to leaving 0, s",
    f"first message to {REPLICAS} replicas for {MESSAGES} messages at {fleet.PER_REPLICA}, s",
    "queue empty to 0, s",
)


@dataclass(frozen=True)
class Plan:
    """How often the scenarios run, on how many queues, and for how long something is away."""

    times: Times
    cycles: int
    failures: int
    pairs: int
    away: float
    seed: int


@dataclass(frozen=True)
class Timeline:
    """What one pair of Deployments did: seconds since the scenario began, and counts."""

    title: str
    start: int
    events: Sequence[tuple[float, str]]
    changes: Mapping[str, Sequence[tuple[float, int]]]

    def path(self, side: str) -> str:
        """Return the counts of that side in their order, for example "4 -> 6 -> 4"."""
        return " -> ".join(str(count) for count in (self.start, *self._counts(side)))

    def _counts(self, side: str) -> list[int]:
        return [count for _, count in self.changes[side]]


@dataclass
class Results:
    """Samples by row and side, None where something did not happen; and timelines."""

    samples: dict[str, dict[str, list[float | None]]] = field(default_factory=dict)
    timelines: list[Timeline] = field(default_factory=list)

    def add(self, row: str, side: str, seconds: float | None) -> None:
        """Add a sample."""
        self.samples.setdefault(row, {}).setdefault(side, []).append(seconds)


def queue(report: Report, plan: Plan) -> Results:
    """Let queues fill and empty, each at moments of its own: waking, climbing, going to sleep."""
    pairs = [Pair(f"queue-{number}") for number in range(plan.pairs)]
    names = [pair.queue for pair in pairs]
    found = Results()
    with at_work(report, pairs, plan.times, dict.fromkeys(names, 0), plan.seed) as stage:
        for cycle in range(plan.cycles):
            report(f"queues fill and empty, cycle {cycle + 1} of {plan.cycles}")
            stage.new_phase()
            filled = _spread(stage, MESSAGES)
            stage.settle(dict.fromkeys(names, REPLICAS))
            stage.let_pass(stage.random.uniform(0, plan.times.period))
            emptied = _spread(stage, 0)
            stage.settle(dict.fromkeys(names, 0))
            for pair in pairs:
                _note_queue(found, stage, pair, filled[pair.queue], emptied[pair.queue])
            if cycle == 0:
                first = pairs[0]
                since = filled[first.queue]
                events = [
                    (0.0, f"{MESSAGES} messages"),
                    (emptied[first.queue] - since, "queue empty"),
                ]
                found.timelines.append(
                    _timeline("A queue fills and empties", stage, first, since, 0, events)
                )
    return found


def outage(report: Report, plan: Plan) -> Results:
    """Let Prometheus be away, with and without fallback, at idle and with work."""

    def away(stage: Stage) -> None:
        stage.bed.prometheus.stop()
        stage.let_pass(plan.away)
        stage.bed.prometheus.start([stage.bed.page.target])

    return _failure(report, plan, "Prometheus is away", away)


def vanish(report: Report, plan: Plan) -> Results:
    """Let the series of all queues vanish for a time, as when their exporter is away."""

    def away(stage: Stage) -> None:
        before = dict(stage.messages)
        stage.fill(dict.fromkeys(before))
        stage.let_pass(plan.away)
        stage.fill(before)

    return _failure(report, plan, "the series vanish", away)


def pause(report: Report, plan: Plan) -> Results:
    """Pause both sides by annotations while the queue grows, and take the annotations away."""
    held, pinned = Pair("held"), Pair("pinned")
    pairs, found = [held, pinned], Results()
    some = {pair.queue: SOME_MESSAGES for pair in pairs}
    many = {pair.queue: MESSAGES for pair in pairs}
    with at_work(report, pairs, plan.times, some, plan.seed) as stage:
        for cycle in range(plan.cycles):
            report(f"pause and resume, cycle {cycle + 1} of {plan.cycles}")
            stage.fill(some)
            stage.settle(dict.fromkeys(some, SOME_REPLICAS))
            stage.new_phase()
            paused = time.time()
            _annotate(stage, held, "all", "true")
            _annotate(stage, pinned, "count", str(PINNED))
            stage.fill(many)
            stage.let_pass(4 * plan.times.poll + stage.random.uniform(0, plan.times.poll))
            resumed = time.time()
            _annotate(stage, held, "all", None)
            _annotate(stage, pinned, "count", None)
            stage.settle(dict.fromkeys(many, REPLICAS))
            events = [(0.0, f"paused; {MESSAGES} messages"), (resumed - paused, "resumed")]
            for pair, title in ((held, "Paused"), (pinned, f"Paused at {PINNED} replicas")):
                _note_pause(found, stage, pair, paused, resumed)
                if cycle == 0:
                    found.timelines.append(
                        _timeline(title, stage, pair, paused, SOME_REPLICAS, events)
                    )
    return found


SCENARIOS: Mapping[str, Callable[[Report, Plan], Results]] = {
    "queue": queue,
    "outage": outage,
    "vanish": vanish,
    "pause": pause,
}


def _failure(report: Report, plan: Plan, what: str, away: Callable[[Stage], None]) -> Results:
    """Run a failure of the readings on queues with and without messages and fallback."""
    idle, busy = Pair("idle"), Pair("busy")
    safe_idle, safe_busy = (
        Pair("idle-fallback", fallback=True),
        Pair("busy-fallback", fallback=True),
    )
    pairs, found = [idle, busy, safe_idle, safe_busy], Results()
    messages = {pair.queue: SOME_MESSAGES * pair.queue.startswith("busy") for pair in pairs}
    replicas = {pair.queue: SOME_REPLICAS * pair.queue.startswith("busy") for pair in pairs}
    with at_work(report, pairs, plan.times, messages, plan.seed) as stage:
        for cycle in range(plan.failures):
            stage.settle(replicas)
            stage.new_phase()
            report(f"{what} for {plan.away:g} s, cycle {cycle + 1} of {plan.failures}")
            began = time.time()
            away(stage)
            returned = time.time()
            report("back again")
            # Long enough for what a fallback raised to come down again.
            stage.let_pass(2 * plan.times.cooldown + 4 * plan.times.period)
            _note_failure(found, stage, what, began, returned)
            if cycle == 0:
                events = [(0.0, what), (returned - began, "back again")]
                for pair in pairs:
                    start = replicas[pair.queue]
                    title = f"{what}, {start} replicas{', with fallback' * pair.fallback}"
                    found.timelines.append(_timeline(title, stage, pair, began, start, events))
    return found


def _spread(stage: Stage, messages: int) -> dict[str, float]:
    """Give each queue its messages at a random moment of one poll; return when (Unix times)."""
    began = time.time()
    moments = sorted(
        (stage.random.uniform(0, stage.times.poll), pair.queue) for pair in stage.pairs
    )
    sent = {}
    for offset, name in moments:
        stage.let_pass(max(0.0, began + offset - time.time()))
        stage.fill({name: messages})
        sent[name] = time.time()
    return sent


def _note_queue(found: Results, stage: Stage, pair: Pair, filled: float, emptied: float) -> None:
    for side in SIDES:
        changes = stage.changes(pair, side)
        found.add(_LEAVING, side, _first(changes, filled, lambda count: count > 0))
        found.add(_FULL, side, _first(changes, filled, lambda count: count >= REPLICAS))
        found.add(_ASLEEP, side, _first(changes, emptied, lambda count: count == 0))


def _note_failure(found: Results, stage: Stage, what: str, began: float, returned: float) -> None:
    """Note how soon the fallback of the busy queue began and ended, if it did."""
    (pair,) = (pair for pair in stage.pairs if pair.fallback and stage.messages[pair.queue])
    for side in SIDES:
        changes = stage.changes(pair, side)
        raised = _first(changes, began, lambda count: count == FALLBACK["replicas"])
        back = _first(changes, returned, lambda count: count == SOME_REPLICAS)
        found.add(f"{what}: to the fallback, s", side, raised)
        ended = None if raised is None else back
        found.add(f"{what}: from its return to the end of the fallback, s", side, ended)


def _note_pause(found: Results, stage: Stage, pair: Pair, paused: float, resumed: float) -> None:
    for side in SIDES:
        changes = stage.changes(pair, side)
        if pair.queue == "pinned":
            at = _first(changes, paused, lambda count: count == PINNED)
            found.add(f"paused-replicas to {PINNED} replicas, s", side, at)
        full = _first(changes, resumed, lambda count: count >= REPLICAS)
        found.add(f"resumed to {REPLICAS} replicas, s", side, full)


def _annotate(stage: Stage, pair: Pair, annotation: str, value: str | None) -> None:
    """Set or take away the annotation of both sides."""
    for side in SIDES:
        paired.annotate(stage.bed, pair, side, {PAUSE[side][annotation]: value})


def _first(changes: Sequence[Change], since: float, reached: Callable[[int], bool]) -> float | None:
    """Return the seconds from `since` to the first change to such a count."""
    times = (change.at for change in changes if change.at >= since and reached(change.replicas))
    first = next(times, None)
    return None if first is None else first - since


def _timeline(
    title: str,
    stage: Stage,
    pair: Pair,
    since: float,
    start: int,
    events: Sequence[tuple[float, str]],
) -> Timeline:
    changes = {
        side: [
            (change.at - since, change.replicas)
            for change in stage.changes(pair, side)
            if change.at >= since
        ]
        for side in SIDES
    }
    return Timeline(title, start, events, changes)
