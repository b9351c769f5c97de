"""Several metrics, one proposal (semantics 1.3.2)."""

from collections.abc import Sequence

from autoscaler.core.decision import Combination, MetricFailure, MetricResult


def combine(
    results: Sequence[MetricResult], current: int
) -> Combination | tuple[MetricFailure, int]:
    """Take the largest proposal, of equal ones the first.

    A failed metric forbids everything below the ``current`` count, and if all fail nothing can
    be said; then the first failure is returned, and how many there are.
    """
    best, winner = 0, ""
    failures: list[MetricFailure] = []
    for result in results:
        if isinstance(result.outcome, MetricFailure):
            failures.append(result.outcome)
        elif best == 0 or result.outcome.proposal > best:
            best, winner = result.outcome.proposal, result.name
    if len(failures) == len(results) or (failures and best < current):
        return failures[0], len(failures)
    # A negative proposal asks for no replicas (semantics 1.4).
    return Combination(current, max(best, 0), winner, len(failures))
