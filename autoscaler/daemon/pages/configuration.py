"""The configuration of a target that is in force, in the words of the page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autoscaler.core.extensions import Extensions, Schedule
from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.quantity import format_milli
from autoscaler.core.spec import Flags, PolicyType, ScalingPolicy, ScalingRules, SelectPolicy
from autoscaler.core.target import Query, Target
from autoscaler.core.text import printable
from autoscaler.daemon.exposition.target_states import Known
from autoscaler.rendering import extension_words, wording
from autoscaler.rendering.configuration import duration
from autoscaler.schedules import next_window

_LONGEST_QUERY = 20_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A query: what it is for, its PromQL, and how its answer is read."""

    name: str
    detail: str
    promql: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Planned:
    """A schedule with its next start and end."""

    name: str
    bounds: str
    timezone: str
    start: str
    end: str
    opens: float | None
    """None if it is open."""
    closes: float


@dataclass(frozen=True, slots=True)
class InForce:
    """What is in force for a target."""

    bounds: str
    sync_period: float
    metrics: tuple[Asked, ...]
    bound_queries: tuple[Asked, ...]
    behavior: tuple[tuple[str, str], ...]
    extensions: tuple[tuple[str, str], ...]
    schedules: tuple[Planned, ...]


def in_force(known: Known, flags: Flags, now: float) -> InForce:
    """Return what is in force."""
    target = known.target
    spec, extensions = target.spec, target.extensions
    bounds = f"{spec.min_replicas} to {spec.max_replicas}"
    if known.last is not None:
        decision = known.last.decision
        low = extension_words.min_replicas(decision)
        bounds = f"{low} to {extension_words.max_replicas(decision)}"
    bound_queries = (
        ("minReplicas", target.min_replicas_query),
        ("maxReplicas", target.max_replicas_query),
    )
    return InForce(
        bounds,
        target.sync_period,
        tuple(_metrics(target)),
        tuple(_asked(name, "", query) for name, query in bound_queries if query is not None),
        tuple(_behavior(target, flags)),
        tuple(_extensions(extensions, now)),
        planned(extensions.schedules, now),
    )


def _metrics(target: Target) -> Iterator[Asked]:
    activations = target.extensions.activations
    for index, metric in enumerate(target.spec.metrics):
        detail = f"{metric.type}, target {wording.target(metric)}"
        if target.extensions.idle is not None and index < len(activations):
            detail += f", active above {format_milli(activations[index])}"
        query = target.queries[index] if index < len(target.queries) else None
        yield _asked(wording.metric_name(metric), detail, query)


def _asked(name: str, detail: str, query: Query | None) -> Asked:
    if query is None:
        return Asked(name, detail, "", ())
    notes = [f"asked of {wording.prometheus_server(query.server)}"] if query.server else []
    notes.append(f"a sample counts for {duration(query.max_age)}")
    notes += ["no series counts as 0"] if query.empty_is_zero else []
    notes += ["NaN counts as 0"] if query.nan_is_zero else []
    notes += ["a partial answer may scale down"] if query.use_partial else []
    return Asked(name, detail, printable(query.promql, _LONGEST_QUERY), tuple(notes))


def _behavior(target: Target, flags: Flags) -> Iterator[tuple[str, str]]:
    behavior, window = target.spec.behavior, flags.downscale_stabilization
    if behavior is None:
        yield "Scale up", "at once, to at most twice the replicas or 4 in one sync"
        yield "Scale down", f"to the highest recommendation of {duration(window)}"
        yield "Tolerance", f"{flags.tolerance:.4g} of the ratio"
        return
    yield "Scale up", _rules(behavior.scale_up, 0.0)
    yield "Scale down", _rules(behavior.scale_down, window)
    for name, one in (("up", behavior.scale_up), ("down", behavior.scale_down)):
        tolerance = flags.tolerance if one.tolerance is None else one.tolerance
        yield f"Tolerance {name}", f"{tolerance:.4g} of the ratio"


def _rules(rules: ScalingRules, usual_window: float) -> str:
    if rules.select_policy is SelectPolicy.DISABLED:
        return "disabled"
    window = rules.stabilization_window_seconds
    seconds = usual_window if window is None else float(window)
    parts = [f"at most {_policy(one)}" for one in rules.policies]
    which = "most" if rules.select_policy is SelectPolicy.MAX else "least"
    chosen = f" (what permits the {which})" if len(parts) > 1 else ""
    held = f"stabilized over {duration(seconds)}" if seconds else "without stabilization"
    return f"{' or '.join(parts)}{chosen}, {held}"


def _policy(one: ScalingPolicy) -> str:
    percent = one.type is PolicyType.PERCENT
    amount = f"{one.value}%" if percent else wording.counted(one.value, "pod")
    return f"{amount} per {one.period_seconds} s"


def _extensions(extensions: Extensions, now: float) -> Iterator[tuple[str, str]]:
    idle, fallback, pause = extensions.idle, extensions.fallback, extensions.pause
    if idle is not None:
        to = wording.counted(idle.replicas, "replica")
        yield "Idle", f"to {to} once no metric was active for {duration(idle.after)}"
    if fallback is not None:
        after = wording.counted(fallback.failure_threshold, "failed sync")
        count = wording.counted(fallback.replicas, "replica")
        yield "Fallback", f"{count} after {after} ({fallback.behavior})"
    if pause is not None:
        yield "Paused", printable(extension_words.pause(pause, now), LONGEST_SENTENCE)
    if extensions.ignore_surge:
        yield "Surge", "the pods of a rolling update's surge do not count"


def planned(schedules: Sequence[Schedule], now: float) -> tuple[Planned, ...]:
    """Return the schedules, those that are open or come next first."""
    found = [_planned(one, now) for one in schedules]
    return tuple(sorted(found, key=lambda one: (one.opens or 0.0, one.closes)))


def _planned(one: Schedule, now: float) -> Planned:
    least = "" if one.min_replicas is None else f"minReplicas {one.min_replicas}"
    most = "" if one.max_replicas is None else f"maxReplicas {one.max_replicas}"
    bounds = ", ".join(text for text in (least, most) if text)
    bounds += " gradually" if one.gradual else ""
    return Planned(one.name, bounds, one.timezone, one.start, one.end, *next_window(one, now))
