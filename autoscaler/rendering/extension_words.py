"""Words for what a target may have beyond the HPA's spec: pauses, bounds, idle, fallbacks."""

from autoscaler.core.decision import Activity, Decision, MetricResult, Saturation, Zone
from autoscaler.core.extensions import Fallback, FallbackBehavior, Pause, PauseMode
from autoscaler.core.quantity import format_milli
from autoscaler.core.target import Target
from autoscaler.rendering import wording
from autoscaler.rendering.wording import time_of_day

_PAUSED = {
    PauseMode.ALL: "paused",
    PauseMode.SCALE_DOWN: "scale-down is paused",
    PauseMode.SCALE_UP: "scale-up is paused",
}


def pause(one: Pause, now: float) -> str:
    """Write what is paused, by whom, and until when."""
    until = "" if one.until is None else f" until {time_of_day(one.until, now)}"
    return f"{_PAUSED[one.mode]} by {one.by}{until}"


def prevented(decision: Decision) -> str:
    """Write which count a pause prevents; empty where it prevents none."""
    if decision.paused_from is None:
        return ""
    return f"; {wording.counted(decision.paused_from, 'replica')} without it"


def min_replicas(decision: Decision) -> str:
    """Write the minimum in force, and what sets it if that is not the target itself."""
    by = "" if decision.bounds is None else decision.bounds.minimum.by
    return f"{decision.min_replicas} by {by}" if by else str(decision.min_replicas)


def max_replicas(decision: Decision) -> str:
    """Write the maximum in force, and what sets it if that is not the target itself."""
    by = "" if decision.bounds is None else decision.bounds.maximum.by
    return f"{decision.max_replicas} by {by}" if by else str(decision.max_replicas)


def goes_idle(decision: Decision) -> str:
    """Write when a target that is awake goes idle; empty where it will not."""
    idle = decision.idle
    if idle is None or decision.zone is not Zone.METRICS:
        return ""
    if idle.active or idle.asleep or idle.kept_awake or idle.until <= decision.time:
        return ""
    return f"idle from {time_of_day(idle.until, decision.time)} on unless a metric becomes active"


def asleep(decision: Decision) -> str:
    """Write why a target is idle."""
    idle = decision.idle
    if idle is None or not idle.active:
        since = "" if idle is None else f" since {time_of_day(idle.last_active, decision.time)}"
        return f"idle, no metric has been active{since}"
    unknown = [one for one in decision.metrics if one.activity is Activity.UNKNOWN]
    names = " or ".join(wording.metric_name(one.metric) for one in unknown)
    return f"idle, and it is not known whether {names} is active"


def activity(result: MetricResult, target: Target) -> str:
    """Write whether a metric is above its activation; empty where it takes no part."""
    if result.activity is None:
        return ""
    if result.activity is Activity.UNKNOWN:
        return "not known to be active or not, which keeps it awake and does not wake it"
    above = {Activity.ACTIVE: "active: above", Activity.INACTIVE: "not active: not above"}
    return f"{above[result.activity]} its activation of {_activation(result, target)}"


def _activation(result: MetricResult, target: Target) -> str:
    activations = dict(zip(target.spec.metrics, target.extensions.activations, strict=False))
    return format_milli(activations.get(result.metric, 0))


def fallback(result: MetricResult) -> str:
    """Write what the fallback asks for in place of a metric; empty where it does not."""
    use = result.fallback
    if use is None:
        return ""
    name, syncs = wording.metric_name(result.metric), wording.counted(use.syncs, "sync")
    in_a_row = " in a row" if use.syncs > 1 else ""
    return f"{name} failed in {syncs}{in_a_row}, and the fallback asks for {use.proposal}"


def behavior(one: Fallback) -> str:
    """Write in brackets what a fallback depends on; empty where it is a plain count."""
    if one.behavior is FallbackBehavior.STATIC:
        return ""
    if one.behavior is FallbackBehavior.CURRENT_REPLICAS:
        return " (the current count)"
    higher = one.behavior is FallbackBehavior.CURRENT_REPLICAS_IF_HIGHER
    word = "higher" if higher else "lower"
    return f" ({one.replicas}, or the current count if that is {word})"


def saturation(one: Saturation, now: float) -> str:
    """Write how many replicas are missing, and since when."""
    missing = wording.counted(one.missing, "replica")
    return f"{missing} missing since {time_of_day(one.since, now)}: {one.reason}"
