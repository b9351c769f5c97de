"""Counts in whole slices, groups or zones: `replicas.multipleOf` (semantics 8.13)."""

from autoscaler.core.decision import Rounding, RulesOutcome, Zone
from autoscaler.core.quick import changed
from autoscaler.core.spec import HorizontalPodAutoscalerSpec

_ROUNDED = (Zone.METRICS, Zone.ABOVE_MAX, Zone.BELOW_MIN)
"""The zones whose counts are rounded; the counts of a pause and of `idle` are exact."""


def in_multiples(
    result: RulesOutcome, spec: HorizontalPodAutoscalerSpec, current: int, of: int
) -> RulesOutcome:
    """Return a result whose count is rounded up to a multiple, within the bounds of ``spec``.

    A count that does not change is not rounded, and rounding never turns a scale-down into a
    scale-up, nor the other way round.
    """
    count = result.desired
    if result.zone not in _ROUNDED or count == current:
        return result
    after = _rounded(count, spec, current, of)
    if count > current:
        after = max(after, current)
    elif after >= current:
        # The policies may permit less than a multiple in each step, and never add up to one.
        wanted = count if result.limit is None else result.limit.before
        # The metrics may ask for less than the minimum.
        wanted = max(wanted, min(spec.min_replicas, count))
        is_due = _rounded(wanted, spec, current, of) < current
        after = (current - 1) // of * of if is_due else current
    if after == count:
        return result
    return changed(result, desired=after, rounding=Rounding(of, count, after))


def _rounded(count: int, spec: HorizontalPodAutoscalerSpec, current: int, of: int) -> int:
    """Return the next multiple, or the last multiple within the bounds, or else the count.

    A count outside the bounds is on its way to them, by the policies.
    """
    low = min(spec.min_replicas, count)
    high = max(current, count) if count > spec.max_replicas else spec.max_replicas
    after = -(-count // of) * of
    if after > high:
        after = high // of * of
    return after if after >= low else count
