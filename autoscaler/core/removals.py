"""Which pods a scale-down removes: `scaleDown.podDeletionCost` (semantics 8.14).

The ReplicaSet controller removes pods that do not run or are not ready first, then those with the
lowest `controller.kubernetes.io/pod-deletion-cost`, which is 0 for a pod without it.  So the pods
with the lowest values get negative costs, as many as will go, and all other pods none.

Source: `ActivePodsWithRanks` of kube-controller-manager, KEP-2255.
"""

from collections.abc import Mapping, Sequence

from autoscaler.core.decision import Removal, RemovalReason, Removals
from autoscaler.core.observation import (
    Gap,
    GapKind,
    Observation,
    Pod,
    PodSamples,
    Scale,
)
from autoscaler.core.spec import ConditionStatus

MOST_COSTS = 200
"""The most pods that one scale-down gives a cost: each one is a request to the API server."""


def removals_of(seen: Observation, desired: int) -> Removals | None:
    """Return the pods that a change to ``desired`` removes; None if it removes none, or all."""
    scale = seen.scale
    if not isinstance(scale, Scale) or not 0 < desired < scale.spec_replicas:
        return None
    if not isinstance(seen.pods, tuple):
        unread = Gap(GapKind.ERROR, "the pods could not be read")
        return Removals(scale.spec_replicas - desired, (), unread)
    active = [pod for pod in seen.pods if not pod.deleted]
    # Pods of a rolling update's surge go too, and other workloads' pods do not.
    count = min(len(active), max(scale.spec_replicas, scale.status_replicas)) - desired
    if count <= 0:
        return None
    reading = seen.deletion_costs
    if seen.ambiguous_with:
        shared = f"the selector matches pods of {', '.join(seen.ambiguous_with)} too"
        return Removals(count, (), Gap(GapKind.AMBIGUOUS, shared))
    gap = next(iter(reading.gaps), None) if isinstance(reading, PodSamples) else reading
    owners = sorted({pod.name.rpartition("-")[0] for pod in active})
    if len(owners) > 1 and gap is None:
        # In a rollout each ReplicaSet shrinks; how much is known only to the Deployment controller.
        several = f"the pods are of several ReplicaSets, {owners[0]} and {owners[1]} among them"
        gap = Gap(GapKind.AMBIGUOUS, several)
    first = _first_of_all(active)[:count]
    lowest: Sequence[Removal] = ()
    if gap is None and isinstance(reading, PodSamples):
        lowest = _lowest(active, reading, min(count - len(first), MOST_COSTS))
    return Removals(count, (*first, *lowest), gap)


def _first_of_all(pods: Sequence[Pod]) -> list[Removal]:
    """Return the pods that go before all pods with a value."""
    waiting = [pod for pod in pods if not _is_ready(pod)]
    waiting.sort(key=lambda pod: (_PHASES.get(pod.phase, len(_PHASES)), pod.name))
    costs = {pod.name: _cost_of_others(pod) or 0 for pod in pods if _is_ready(pod)}
    cheap = sorted((cost, name) for name, cost in costs.items() if cost < 0)
    return [
        *(Removal(pod.name, RemovalReason.NOT_READY) for pod in waiting),
        *(Removal(name, RemovalReason.OTHER_COST, cost=cost) for cost, name in cheap),
    ]


_PHASES = {"Pending": 0, "Unknown": 1}
"""The order in which the controller removes phases; all others come last."""


def _is_ready(pod: Pod) -> bool:
    return pod.phase not in _PHASES and pod.ready is ConditionStatus.TRUE


def _cost_of_others(pod: Pod) -> int | None:
    """Return the deletion cost that another client has set; None without one."""
    return None if pod.deletion_cost == pod.our_deletion_cost else pod.deletion_cost


def _lowest(pods: Sequence[Pod], reading: PodSamples, most: int) -> list[Removal]:
    """Return at most ``most`` pods with the lowest values, and with costs up to -1.

    A pod with a cost of another client keeps it. Of equal values the pod that became ready last
    goes first, as without costs.
    """
    known = [
        (reading.samples[pod.name].milli, -(pod.ready_transition or 0.0), pod.name)
        for pod in pods
        if pod.name in reading.samples and _is_ready(pod) and _cost_of_others(pod) is None
    ]
    chosen = sorted(known)[:most]
    return [
        Removal(name, RemovalReason.LOWEST_VALUE, milli, number - len(chosen))
        for number, (milli, _, name) in enumerate(chosen)
    ]


def cost_changes(pods: Sequence[Pod], costs: Mapping[str, int]) -> dict[str, int | None]:
    """Return the costs to set so that ours are exactly ``costs``; None removes one."""
    active = {pod.name: pod for pod in pods if not pod.deleted}
    changes: dict[str, int | None] = {
        name: cost for name, cost in costs.items() if not _has(active[name], cost)
    }
    no_longer = (pod.name for pod in active.values() if pod.our_deletion_cost is not None)
    return changes | {name: None for name in no_longer if name not in costs}


def _has(pod: Pod, cost: int) -> bool:
    return pod.deletion_cost == pod.our_deletion_cost == cost


def is_over(seen: Observation) -> bool:
    """Return whether no earlier scale-down still has pods to remove."""
    scale, pods = seen.scale, seen.pods
    if not isinstance(scale, Scale) or not isinstance(pods, tuple):
        return False
    # Pods of another workload that the selector matches too are never gone.
    left = min(sum(not pod.deleted for pod in pods), scale.status_replicas)
    return left <= scale.spec_replicas
