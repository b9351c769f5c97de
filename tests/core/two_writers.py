"""Two instances of ours, one workload, and a judge who knows when each of their writes landed.

Every write replaces one version of the object, as the API server has it.  Its answer may be lost:
then it has landed, lands later if the object still has that version, or never does.
"""

import math
from dataclasses import dataclass, field

from autoscaler.core.decide import decide
from autoscaler.core.decision import Decision
from autoscaler.core.history import History, ScaleEvent
from autoscaler.core.normalize import limit
from autoscaler.core.observation import Observation, Scale
from autoscaler.core.spec import Behavior, Flags
from autoscaler.core.writes import FIELD_MANAGER, AcceptedWrite, WriteFailure, intend, settle_write
from tests.core.builders import BASE, average, external, spec, values

PERIOD = 5.0
GRACE = 5.0
"""A write of the leader before may land so long after a takeover; reads do not count until then."""
HAND = "kubectl"
_FREE = (0, 1000)
_LOST = WriteFailure("no answer", unknown=True)


@dataclass
class Instance:
    """A process of ours."""

    history: History = field(default_factory=History)
    looked: float | None = None
    runs: bool = True


@dataclass(frozen=True)
class Request:
    """A write on its way, which lands if the object has its version then."""

    version: int
    replicas: int
    lands: float


@dataclass
class EventOutcome:
    """What becomes of writes: they land after ``delay`` seconds, and their answers may be lost.

    A writer that is ``killed`` goes on from what it kept before it sent the request.
    """

    delay: float = 0.0
    answered: bool = True
    killed: bool = False


class TwoWriters:
    """One workload, all that set its count, and the judge of our writes.

    Without an ``election`` the first instance is alone.  What is not known of the object, is
    ``blind`` to: "manager" or "generation".
    """

    def __init__(
        self,
        rules: Behavior,
        replicas: int = 6,
        *,
        election: bool = True,
        blind: frozenset[str] = frozenset(),
    ) -> None:
        self.spec = spec(external(average("1")), maximum=1000, behavior=rules)
        self.rules = rules
        self.election, self.blind = election, blind
        self.instances = [Instance(), Instance(runs=election)]
        self.leader = 0
        self.leads_since = -math.inf if not election else BASE - 2 * GRACE
        self.now = BASE
        self.load = self.replicas = replicas
        self.set_by = HAND
        self.generation = self.version = 1
        self.fate = EventOutcome()
        self.requests: list[Request] = []
        self.ups: tuple[ScaleEvent, ...] = ()
        self.downs: tuple[ScaleEvent, ...] = ()

    def hand(self, replicas: int, manager: str = HAND) -> None:
        if replicas != self.replicas:
            self.replicas, self.set_by = replicas, manager
            self.generation += 1
            self.version += 1

    def roll_out(self) -> None:
        """Change the spec, and not the count."""
        self.generation += 1
        self.version += 1

    def report_status(self) -> None:
        """Change the object, and not its spec."""
        self.version += 1

    def takes_over(self, number: int, *, remembers: bool = True) -> None:
        """Let another instance lead; the one before is dead, or was cut off."""
        self.instances[number].runs = True
        if not remembers:
            self.instances[number] = Instance()
        self.leader, self.leads_since = number, self.now
        latest = self.now + GRACE
        self.requests = [request for request in self.requests if request.lands <= latest]

    def fails_over(self, *, remembers: bool = True) -> None:
        """Kill the leader, and let the other instance lead."""
        self.instances[self.leader].runs = False
        self.takes_over(1 - self.leader, remembers=remembers)

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds / PERIOD)):
            self._land()
            for number, instance in enumerate(self.instances):
                if instance.runs:
                    self._sync(instance, leads=number == self.leader)
            self.now += PERIOD

    def allowed(self, wanted: int) -> int:
        """Return the count that the policies permit, with all of our writes known."""
        known = History(scale_ups=self.ups, scale_downs=self.downs)
        return limit(self.replicas, wanted, _FREE, self.rules, known, self.now).after

    def settle(self) -> None:
        """Check that once every write is answered, each goes as far as the policies permit."""
        policies = (*self.rules.scale_up.policies, *self.rules.scale_down.policies)
        longest = max(policy.period_seconds for policy in policies)
        self.fate = EventOutcome()
        self.requests.clear()
        for load in (900, 1):
            self.load = self.replicas
            self.pass_time(2 * longest + 3 * PERIOD)
            before, allowed = self.replicas, self.allowed(load)
            self.load = load
            self.pass_time(PERIOD)
            assert self.replicas == allowed != before

    def _land(self) -> None:
        due = [request for request in self.requests if request.lands <= self.now]
        self.requests = [request for request in self.requests if request not in due]
        for request in sorted(due, key=lambda request: request.lands):
            if request.version == self.version:
                event = ScaleEvent(abs(request.replicas - self.replicas), request.lands)
                if request.replicas > self.replicas:
                    self.ups += (event,)
                else:
                    self.downs += (event,)
                self.hand(request.replicas, FIELD_MANAGER)

    def _sync(self, instance: Instance, *, leads: bool) -> None:
        looked, before = instance.looked, instance.history
        alone = leads and self.leads_since + GRACE <= (-math.inf if looked is None else looked)
        scale = Scale(
            self.replicas,
            self.replicas,
            "app=web",
            str(self.version),
            replicas_by="" if "manager" in self.blind else self.set_by,
            generation=0 if "generation" in self.blind else self.generation,
        )
        seen = Observation(scale, (), (values(self.load),), sole_writer=alone, last_read=looked)
        flags = Flags(downscale_stabilization=0, hold_after_reversals=0)
        decision, history = decide(self.spec, flags, seen, before, self.now)
        assert decision.foreign is None or decision.foreign.manager != FIELD_MANAGER
        instance.history, instance.looked = history, self.now
        if leads and decision.rescale:
            self._write(instance, before, decision, scale)

    def _write(self, instance: Instance, before: History, decision: Decision, seen: Scale) -> None:
        assert self.allowed(decision.desired) == decision.desired, decision.limit
        fate, earlier = self.fate, instance.history.pending
        self.requests.append(Request(self.version, decision.desired, self.now + fate.delay))
        instance.history = intend(decision, instance.history)
        self._land()
        if fate.killed:
            instance.looked = None
            if self.election:
                self.takes_over(self.leader)
            return
        outcome = AcceptedWrite(seen) if fate.answered else _LOST
        _, instance.history = settle_write(
            self.spec, decision, outcome, instance.history, before, earlier
        )
