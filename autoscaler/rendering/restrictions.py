"""Words for what keeps a count from what the metrics ask for: windows, bounds, rate limits."""

from autoscaler.core.decision import Limit, Stabilization
from autoscaler.core.limits import SCALE_DOWN_LIMIT, SCALE_UP_LIMIT, TOO_FEW, TOO_MANY
from autoscaler.core.spec import Behavior, SelectPolicy
from autoscaler.rendering import extension_words, wording
from autoscaler.rendering.wording import time_of_day
from autoscaler.sync.ports import SyncResult


def hold(stage: Stabilization, now: float) -> str:
    """Return what holds a count away from the proposal, and until when."""
    until = "" if stage.until is None else f" until {time_of_day(stage.until, now)}"
    if stage.refill is not None:
        what = "the first reading was" if stage.refill.first else "a reading returned after a gap"
        returned = time_of_day(stage.refill.returned, now)
        return f"nothing goes down{until}, since {what} at {returned}"
    if stage.held_by is None:
        return f"held at {stage.after}{until} ({stage.reason})"
    count, at = stage.held_by.replicas, time_of_day(stage.held_by.time, now)
    if stage.held_by.first:
        return f"held at {stage.after}{until} by the count of {count} at the first sync, {at}"
    return f"held at {stage.after}{until} by the recommendation of {count} at {at}"


def restriction(stage: Limit, result: SyncResult) -> str:
    """Return which bound or rate limit permits no more, and from when on it does."""
    decision, now = result.decision, result.decision.time
    if stage.reason == TOO_FEW:
        return f"minReplicas is {extension_words.min_replicas(decision)}"
    if stage.reason == TOO_MANY:
        return f"maxReplicas is {extension_words.max_replicas(decision)}"
    direction = {SCALE_UP_LIMIT: "scaleUp", SCALE_DOWN_LIMIT: "scaleDown"}[stage.reason]
    if stage.unseen is not None:
        unseen = time_of_day(stage.unseen, now)
        text = (
            f"what other instances of this autoscaler changed until {unseen} is not known, "
            f"and counts as all that {direction} permits"
        )
    else:
        text = f"{_rule(stage, result.target.spec.behavior, direction)} permits {stage.allowed} now"
    more = "" if stage.until is None else f", more from {time_of_day(stage.until, now)} on"
    return text + more


def _rule(stage: Limit, behavior: Behavior | None, direction: str) -> str:
    if stage.policy is not None:
        policy = stage.policy
        percent = policy.type == "Percent"
        amount = f"{policy.value}%" if percent else wording.counted(policy.value, "pod")
        return f"the {direction} policy of {amount} per {policy.period_seconds} s"
    if behavior is None:
        return "the HPA's limit of twice the replicas or 4 for each step without behavior"
    rules = behavior.scale_up if direction == "scaleUp" else behavior.scale_down
    disabled = rules.select_policy is SelectPolicy.DISABLED
    return f"{direction}.selectPolicy Disabled" if disabled else direction
