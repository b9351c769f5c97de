"""Texts for the parts of a decision: the same in a log line, a table and an explanation."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from autoscaler.core.classification import Mark, State
from autoscaler.core.decision import (
    Activity,
    Calculation,
    Decision,
    Event,
    ForeignChange,
    MetricFailure,
    MetricResult,
    MetricValueStatus,
    Refill,
)
from autoscaler.core.history import Recommendation
from autoscaler.core.observation import LONGEST_SENTENCE, PodSamples, Values
from autoscaler.core.spec import (
    Behavior,
    Flags,
    LabelSelector,
    MetricSpec,
    ObjectMetric,
    Operator,
    PolicyType,
    Requirement,
    ScalingPolicy,
    ScalingRules,
    SelectPolicy,
)
from autoscaler.core.target import Target, TargetName
from autoscaler.core.text import duration, printable, rfc3339
from autoscaler.core.writes import FIELD_MANAGER

_LONGEST_NAME, _LONGEST_KEY = 500, 1000
_MOST_SUGGESTED, _MOST_COMPARED, _LONGEST_COMPARED = 3, 500, 300

STATE_WORDS: Mapping[str, str] = {
    State.FAILING: "failing",
    State.CONTESTED: "contested",
    State.UNKNOWN: "not synced yet",
    State.AT_MAXIMUM: "at maximum",
    State.LIMITED: "limited",
    State.HELD: "held",
    State.STABILIZING: "stabilizing",
    State.DISABLED: "disabled",
    State.PAUSED: "paused",
    State.CONTROLLED: "controlled",
    State.SHADOW: "in shadow",
    State.IDLE: "idle",
    State.OK: "ok",
}
"""The word for each state; the state that most needs an operator is first."""
MARK_WORDS = {mark: (mark.name or "").lower().replace("_", " ") for mark in Mark} | {
    Mark.WRITTEN: "scaled",
    Mark.FOREIGN: "changed by others",
    Mark.FAILED: "failing",
    Mark.QUERY_HOLD: "no scale-down",
    Mark.SHADOW: "in shadow",
    Mark.REMOVED: "no longer configured",
}
"""The word for each mark; for most marks it is the name."""
ACTIVITY_WORDS = {
    Activity.ACTIVE: "active",
    Activity.INACTIVE: "not active",
    Activity.UNKNOWN: "activity unknown",
}


def state_word(state: str) -> str:
    """Return the word for a state, also for one that another version recorded."""
    return STATE_WORDS.get(state, state)


def target_key(target: Target) -> str:
    """Return a target's key, printable."""
    return printable(target.key, _LONGEST_KEY)


def key_parts(key: str) -> TargetName:
    """Return the parts of a target's key, printable."""
    return TargetName(*[printable(part, _LONGEST_NAME) for part in TargetName.parse(key)])


def metric_name(metric: MetricSpec) -> str:
    """Return a metric's short name: its kind, its name, its selector."""
    name, described = metric.name + selector(metric.selector), metric.described_object
    if metric.container is not None:
        name += f" of container {metric.container}"
    if described is not None:
        name += f" of {described.kind} {described.name}"
    return printable(name, _LONGEST_NAME)


def selector(chosen: LabelSelector | None) -> str:
    """Return a selector in the syntax of PromQL."""
    if chosen is None or chosen.empty:
        return ""
    labels = [f'{key}="{value}"' for key, value in chosen.match_labels]
    return "{" + ", ".join([*labels, *map(_matcher, chosen.match_expressions)]) + "}"


def _matcher(requirement: Requirement) -> str:
    same, other = ("=~", "!~") if len(requirement.values) > 1 else ("=", "!=")
    values = "|".join(requirement.values)
    return {
        Operator.IN: f'{requirement.key}{same}"{values}"',
        Operator.NOT_IN: f'{requirement.key}{other}"{values}"',
        Operator.EXISTS: f'{requirement.key}!=""',
        Operator.DOES_NOT_EXIST: f'{requirement.key}=""',
    }[requirement.operator]


def similar(name: str, names: Sequence[str]) -> list[str]:
    """Return similar names to an unknown one.

    They differ only in case, else have the same last part, else the closest one.
    """
    meant = name[:_LONGEST_COMPARED].lower()
    alike = [name for name in names if name.lower() == meant]
    alike = alike or [name for name in names if _last_part(name) == _last_part(meant)]
    if alike:
        return alike[:_MOST_SUGGESTED]
    form = str.lower if "/" in meant else _last_part
    forms = {form(name): name for name in reversed(names[:_MOST_COMPARED])}
    return [forms[close] for close in get_close_matches(meant, forms, 1)]


def _last_part(name: str) -> str:
    return name.rpartition("/")[2].lower()


def server_label(server: str) -> str:
    """Return a Prometheus server's name as in `autoscaler resume --breaker` and in metrics."""
    return server or "default"


def prometheus_server(server: str) -> str:
    """Return a Prometheus server's name for a sentence."""
    return f'the Prometheus server "{printable(server, _LONGEST_NAME)}"' if server else "Prometheus"


# -- numbers -------------------------------------------------------------------------------------


def counted(count: int, noun: str) -> str:
    """Format a count: "1 replica", "2 replicas"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def has_target(shard: int, url: str | None) -> str:
    """Return which other shard has a target."""
    return f"shard {shard} has the targets there" + ("" if url is None else f", see {url}")


def some(names: tuple[str, ...], most: int = 3) -> str:
    """Return the first names of a list, and the number of the others."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def policy(policy: ScalingPolicy, start: int | None = None) -> str:
    """Format a scaling policy: "4 pods per 60 s", "100% of 3 replicas per 60 s".

    ``start`` is the count at the start of the period, if known.
    """
    of = "" if start is None else f" of {counted(start, 'replica')}"
    percent = policy.type is PolicyType.PERCENT
    amount = f"{policy.value}%{of}" if percent else counted(policy.value, "pod")
    return f"{amount} per {policy.period_seconds} s"


def quantity(metric: MetricSpec, milli: int) -> str:
    """Format a value of a metric with up to four digits; `format_milli` is exact.

    CPU below a core is in millicores, memory and storage are in powers of 1024.
    """
    if metric.of_resource:
        if metric.name == "cpu" and abs(milli) < 1000:
            return f"{milli}m" if milli else "0"
        if metric.name != "cpu":
            return _binary(milli / 1000.0)
    return _rounded(milli / 1000.0)


def _rounded(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000.0 else f"{value:.4g}"


def _binary(value: float) -> str:
    units = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
    index = 0
    while abs(value) >= 1024.0 and index < len(units) - 1:
        value, index = value / 1024.0, index + 1
    return _rounded(value) + units[index]


# -- values and targets --------------------------------------------------------------------------


def _target_of(metric: MetricSpec) -> tuple[str, int]:
    """Return the type of a metric's target, and its value in milli-units or in percent."""
    held = metric.target
    if held.average_utilization is not None:
        return "utilization", held.average_utilization
    averaged = held.average_value is not None
    if isinstance(metric, ObjectMetric):
        averaged = held.type == "AverageValue"
    if averaged or metric.of_pods:
        return "average", held.average_value or 0
    return "value", held.value or 0


def target_number(metric: MetricSpec) -> tuple[str, float]:
    """Return the type of a metric's target, and its value in base units or in percent.

    The types are kube-state-metrics' values of `metric_target_type`.
    """
    kind, value = _target_of(metric)
    return kind, value if kind == "utilization" else value / 1000


def target_value(metric: MetricSpec) -> str:
    """Format the target of a metric."""
    kind, value = _target_of(metric)
    return f"{value}%" if kind == "utilization" else quantity(metric, value)


def per(metric: MetricSpec) -> str:
    """Return the denominator of a value: " per replica", " per pod", or nothing."""
    if _target_of(metric)[0] != "average":
        return ""
    return " per pod" if metric.of_pods else " per replica"


def target(metric: MetricSpec) -> str:
    """Format the target of a metric with its denominator."""
    return target_value(metric) + per(metric)


def usage(result: MetricResult) -> str:
    """Format the measured value, in the unit of the target; a dash without a value."""
    if not isinstance(result.outcome, Calculation):
        return "-"
    current = result.outcome.current
    if current.average_utilization is not None:
        return f"{current.average_utilization}%"
    if current.value is not None:
        return quantity(result.metric, current.value)
    return quantity(result.metric, current.average_value or 0)


def exactly(result: MetricResult) -> str:
    """Format the exact sum of a metric's series if milli-units cannot express it; else empty."""
    reading = result.reading
    total = reading.total if isinstance(reading, Values) else None
    return "" if total is None else f"{total:.10g}"


def usage_and_target(result: MetricResult) -> str:
    """Format value and target as `kubectl get hpa` does: "26.5/30 per replica", "90%/70%"."""
    return f"{usage(result)}/{target(result.metric)}"


def total(result: MetricResult) -> str | None:
    """Format the sum of an average; None for other values."""
    reading, outcome = result.reading, result.outcome
    if not isinstance(outcome, Calculation) or outcome.current.average_value is None:
        return None
    if isinstance(reading, Values):
        return quantity(result.metric, sum(reading.values))
    if isinstance(reading, PodSamples):
        aside = () if outcome.groups is None else (*outcome.groups.unready, *outcome.groups.ignored)
        left_out = frozenset(aside)
        counting = [sample.milli for pod, sample in reading.samples.items() if pod not in left_out]
        return quantity(result.metric, sum(counting))
    return None


def usage_and_request(result: MetricResult) -> tuple[str, str] | None:
    """Format the averages of usage and request of a utilization; None for other values."""
    if not isinstance(result.outcome, Calculation):
        return None
    current = result.outcome.current
    if current.average_value is None or current.average_request is None:
        return None
    used = quantity(result.metric, current.average_value)
    return used, quantity(result.metric, current.average_request)


def measured_number(current: MetricValueStatus) -> float:
    """Return the measured value in the unit of `target_number`."""
    if current.average_utilization is not None:
        return current.average_utilization
    milli = current.average_value if current.value is None else current.value
    return (milli or 0) / 1000


# -- sentences -----------------------------------------------------------------------------------


def reason(decision: Decision) -> str:
    """Return a decision's reason with short names of metrics."""
    return plain(decision.reason, decision)


def plain(text: str, decision: Decision) -> str:
    """Replace the HPA's names of metrics, which contain Go structs, in a text."""
    for metric in sorted(decision.metrics, key=lambda metric: -len(metric.name)):
        if metric.name in text:
            text = text.replace(metric.name, metric_name(metric.metric))
    return text


def named_events(decision: Decision) -> Iterator[Event]:
    """Yield a decision's events; events of failed metrics name the metric after the HPA's text.

    They are in the order of the metrics; some failed metrics lack one.
    """
    unnamed = list(decision.metrics)
    for event in decision.events:
        failed = next((metric for metric in unnamed if _is_of(event, metric)), None)
        if failed is None:
            yield event
        else:
            unnamed.remove(failed)
            name = metric_name(failed.metric)
            yield replace(event, message=f"{event.message} (metric {name})")


def _is_of(event: Event, result: MetricResult) -> bool:
    failure = result.outcome
    return isinstance(failure, MetricFailure) and event == Event(
        "Warning", failure.reason, printable(failure.message, LONGEST_SENTENCE)
    )


def foreign(change: ForeignChange) -> str:
    """Return which other field manager set the replicas."""
    who = f'"{change.manager}"' if change.manager else "an unknown client"
    if change.manager == FIELD_MANAGER:
        who = "an instance of this autoscaler with a different Lease or none"
    undoing = " (undoes our last change)" if change.reversal else ""
    return f"{who} set the replicas: {change.before} -> {change.after}{undoing}"


def recommendation(by: Recommendation, now: float) -> str:
    """Return the text of a recommendation that holds a count, or of the sync with that count."""
    at = time_of_day(by.time, now)
    if not by.first:
        return f"recommendation of {by.replicas} at {at}"
    after = " after incomplete readings" if by.only_down else ""
    return f"{counted(by.replicas, 'replica')} at the first sync{after}, {at}"


def refill(back: Refill, now: float) -> str:
    """Return that a reading has just returned, and when it may scale down again."""
    ago = f"{max(0, round(now - back.returned))} s ago"
    what = f"first reading {ago}" if back.first else f"first reading after a gap {ago}"
    if back.after_hold:
        what = f"held until {ago}, samples of that time are missing"
    return f"{what}; no scale-down before {rfc3339(back.until)}, since it may be too low"


def time_of_day(time: float, now: float) -> str:
    """Format a Unix time near ``now`` as time of day in UTC; with the date on another day."""
    text = rfc3339(time)
    return text[11:] if text[:10] == rfc3339(now)[:10] else text


def behavior(of: Behavior | None, flags: Flags) -> Iterator[tuple[str, str]]:
    """Yield label and text of the rules in force for scaling up and down."""
    window = flags.downscale_stabilization
    if of is None:
        yield "Scale up", "at most twice the replicas or 4 per sync, no stabilization window"
        yield "Scale down", f"to the highest recommendation of the last {duration(window)}"
        yield "Tolerance", f"{flags.tolerance:.4g} of the ratio"
        return
    yield "Scale up", _rules(of.scale_up, 0.0)
    yield "Scale down", _rules(of.scale_down, window)
    for name, rules in (("up", of.scale_up), ("down", of.scale_down)):
        tolerance = flags.tolerance if rules.tolerance is None else rules.tolerance
        yield f"Tolerance {name}", f"{tolerance:.4g} of the ratio"


def _rules(rules: ScalingRules, usual_window: float) -> str:
    if rules.select_policy is SelectPolicy.DISABLED:
        return "disabled"
    window = rules.stabilization_window_seconds
    seconds = usual_window if window is None else float(window)
    parts = [f"at most {policy(each)}" for each in rules.policies]
    which = "largest" if rules.select_policy is SelectPolicy.MAX else "smallest"
    chosen = f" (the {which})" if len(parts) > 1 else ""
    held = f"stabilization window {duration(seconds)}" if seconds else "no stabilization window"
    return f"{' or '.join(parts)}{chosen}, {held}"
