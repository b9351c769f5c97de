"""A player for tests that read as timelines: at this time, with this reading, want that count.

One target lives through its syncs; its pods are always all ready; every write is accepted
unless the test says that it fails.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from autoscaler.core.decision import Decision, ForeignChange
from autoscaler.core.extensions import NO_EXTENSIONS, Extensions
from autoscaler.core.history import History
from autoscaler.core.observation import (
    Gap,
    GapKind,
    HoldReading,
    Hpa,
    OpenWindow,
    PodSamples,
    Reading,
    Sample,
    UncheckedControl,
    Values,
)
from autoscaler.core.spec import (
    ExternalMetric,
    Flags,
    HorizontalPodAutoscalerSpec,
    MetricSpec,
    ObjectMetric,
    ResourceMetric,
)
from autoscaler.core.step import Step, step_of
from autoscaler.core.sync_result import Inputs, Rules, SyncResult
from autoscaler.core.target import Query, Target
from autoscaler.lab.engine.workloads import SimulatedWorkload
from autoscaler.lab.engine.world import SimulatedTarget
from autoscaler.persistence.codec import dumps, loads
from autoscaler.rendering.record import stages_of
from tests.core.builders import BASE, pods
from tests.narrowing import known

_TIME = re.compile(r"(?:(\d+)m)?(?:([\d.]+)s)?")


def _bound(value: float | Values | None) -> Values | Gap | None:
    if value is None or isinstance(value, Values):
        return value
    return Gap(GapKind.ERROR, "no answer") if math.isnan(value) else Values((round(value * 1000),))


def seconds(text: str) -> float:
    """Read `5m`, `15s` or `1m30s`."""
    form = known(_TIME.fullmatch(text))
    return 60.0 * float(form[1] or 0) + float(form[2] or 0)


@dataclass(slots=True)
class _TestTarget(SimulatedTarget):
    """A simulated target with the readings of a test; its pods have been ready for long."""

    readings: Mapping[str, float | Reading | None] = field(default_factory=dict)
    windows: tuple[OpenWindow, ...] = ()
    bounds: tuple[Values | Gap | None, Values | Gap | None] = (None, None)
    hold: HoldReading | None = None
    range_seconds: float | None = None

    def inputs(self, due: float, now: float) -> Inputs:
        """Return what is decided from, with the readings of the test."""
        metrics = self.rules.target.spec.metrics
        ranges = None if self.range_seconds is None else (self.range_seconds,) * len(metrics)
        observation = replace(
            self.seen(now),
            pods=pods(self.workload.replicas),
            readings=tuple(self._reading(metric, now) for metric in metrics),
            last_sync=None,
            ranges=ranges,
            windows=self.windows,
            min_replicas_reading=self.bounds[0],
            max_replicas_reading=self.bounds[1],
            hold=self.hold,
        )
        return Inputs(observation, self.history, now, due)

    def _reading(self, metric: MetricSpec, now: float) -> Reading:
        given = self.readings[metric.name]
        if given is None:
            return Gap(GapKind.ERROR, f"no answer for {metric.name}")
        if isinstance(given, Values | PodSamples | Gap):
            return given
        if isinstance(metric, ExternalMetric | ObjectMetric):
            return Values((round(given * 1000),))
        # Every pod requests one cpu, so that 10 milli are one percent.
        milli = round(given * (10 if isinstance(metric, ResourceMetric) else 1000))
        count = self.workload.replicas
        return PodSamples({f"p{index}": Sample(milli, now, 60.0) for index in range(count)})


class Timeline:
    """One target through time.  Each method returns the timeline, so that calls chain."""

    def __init__(
        self,
        spec: HorizontalPodAutoscalerSpec,
        *,
        replicas: int = 1,
        flags: Flags | None = None,
        extensions: Extensions = NO_EXTENSIONS,
    ) -> None:
        self._extensions = extensions
        self.flags = flags or Flags()
        workload = SimulatedWorkload("web", BASE, replicas)
        self._target = _TestTarget(self._rules(spec), workload, ())
        self._step: Step | None = None
        self.decision: Decision
        """That of the last sync, after its write."""

    @property
    def replicas(self) -> int:
        return self._target.workload.replicas

    @property
    def spec(self) -> HorizontalPodAutoscalerSpec:
        return self._target.rules.target.spec

    @property
    def extensions(self) -> Extensions:
        """The extensions of the target."""
        return self._extensions

    @extensions.setter
    def extensions(self, extensions: Extensions) -> None:
        self._extensions = extensions
        self._target.follow(self._rules(self.spec))

    @property
    def history(self) -> History:
        return self._target.history

    @history.setter
    def history(self, history: History) -> None:
        self._target.history = history

    def change(self, spec: HorizontalPodAutoscalerSpec) -> Self:
        """Edit the spec, as an operator does."""
        self._target.follow(self._rules(spec))
        return self

    def by_hand(self, replicas: int, manager: str = "") -> Self:
        """Let others set the count, with a field manager."""
        self._target.workload.set(replicas, BASE, by=manager)
        return self

    def controlled_by(self, controller: str | UncheckedControl | None) -> Self:
        """Let another autoscaler control the target from now on, or none, or leave it unknown."""
        self._target.controller = controller
        return self

    def beside(self, hpa: Hpa | None) -> Self:
        """Let this HPA be there from now on, for a target in shadow to be compared with."""
        self._target.hpa = hpa
        return self

    def annotated(self, **annotations: str) -> Self:
        """Set the annotations ``autoscaler/...`` from now on: paused, paused_until, and so on."""
        names = (f"autoscaler/{name.replace('_', '-')}" for name in annotations)
        self._target.workload.annotate(dict(zip(names, annotations.values(), strict=True)))
        return self

    def opened(self, *windows: OpenWindow) -> Self:
        """Let these schedules be open from now on, and no others."""
        self._target.windows = windows
        return self

    def asked_bounds(
        self, least: float | Values | None = None, most: float | Values | None = None
    ) -> Self:
        """Let the queries of the bounds give these values from now on; NaN for no value."""
        low, high = (_bound(item) for item in (least, most))
        self._target.bounds = (low, high)
        return self

    def holds(self, reading: HoldReading | None) -> Self:
        """Let the query of a hold say this from now on; None for no such query."""
        self._target.hold = reading
        return self

    def over(self, range_seconds: float) -> Self:
        """Let the queries have a range from now on, so that gaps count."""
        self._target.range_seconds = range_seconds
        return self

    def led(self, *, by_us: bool) -> Self:
        """Let us lead, or from now on another instance with our Lease."""
        self._target.sole_writer = by_us
        return self

    def unreadable(self, *, on: bool = True) -> Self:
        """Let the scale be unavailable from now on, or no more."""
        self._target.workload.unreadable = "no answer" if on else ""
        return self

    def away(self, seconds: float) -> Self:
        """Let no sync be for some time, as far as the history knows."""
        self._target.away(seconds, (self._target.last_sync or BASE) + seconds)
        return self

    def lose_state(self) -> Self:
        self._target.history = History()
        return self

    def restart(self) -> Self:
        """Begin anew with the stored history."""
        self._target.history = loads(History, dumps(self.history))
        self._target.last_read = None
        return self

    def sync(
        self, time: str, *, write_fails: str | None = None, **readings: float | Reading | None
    ) -> Self:
        """Sync at a time with a reading by metric name: units, percent of cpu, None for no data."""
        now, target = BASE + seconds(time), self._target
        target.readings, target.write_fails = readings, write_fails or ""
        decided = target.decide(now, now)
        step = target.act(decided)
        # What is decided again goes on from before a write, whose count the observation lacks.
        self._step = decided if step.decision.written else step
        self.decision = step.decision
        return self

    def want(
        self,
        replicas: int,
        *,
        reason: str | None = None,
        stabilized: str | None = None,
        limited: str | None = None,
        outcome: str | None = None,
    ) -> Self:
        """Check the count after the last sync, a part of the reason, and what else is given.

        An empty reason means that there is none.
        """
        decision = self.decision
        assert self.replicas == replicas, stages_of(decision)
        assert reason is None or (reason in decision.reason if reason else not decision.reason)
        held, limit = decision.stabilization, decision.limit
        for actual, wanted in (
            (held and held.reason, stabilized),
            (limit and limit.reason, limited),
            (decision.outcome, outcome),
        ):
            assert wanted is None or actual == wanted
        return self

    def conditions(self, **reasons: str | None) -> Self:
        """Check the reasons of conditions by type; None for a condition that there is not."""
        actual = {condition.type: condition.reason for condition in self.history.conditions}
        assert {type_: actual.get(type_) for type_ in reasons} == reasons
        return self

    def events(self, *reasons: str) -> Self:
        """Check the reasons of the last sync's events, in order."""
        assert tuple(event.reason for event in self.decision.events) == reasons
        return self

    def releases(self, time: str) -> Self:
        """Check that `releases_at` is the first instant at which the result changes.

        The same observation is decided again just before and at that instant.
        """
        decision = self.decision
        assert decision.releases_at is not None
        assert abs(decision.releases_at - BASE - seconds(time)) < 1e-6
        assert self._again(math.nextafter(decision.releases_at, 0)) == decision.desired
        assert self._again(decision.releases_at) != decision.desired
        return self

    def never_releases(self) -> Self:
        assert self.decision.releases_at is None
        return self

    def foreign(self, change: ForeignChange | None) -> Self:
        assert self.decision.foreign == change
        return self

    @property
    def inputs(self) -> Inputs:
        """What the last sync decided from."""
        return known(self._step).inputs

    @property
    def result(self) -> SyncResult:
        """What is reported of the last sync."""
        return known(self._step).result

    def _again(self, now: float) -> int:
        assert self._step is not None
        inputs = Inputs(self._step.inputs.observation, self._step.history, now, now)
        return step_of(self._target.rules, inputs).decision.desired

    def _rules(self, spec: HorizontalPodAutoscalerSpec) -> Rules:
        queries = (Query("queue"),) * len(spec.metrics)
        target = Target("shop", spec, queries, extensions=self._extensions)
        return Rules(target, self.flags)
