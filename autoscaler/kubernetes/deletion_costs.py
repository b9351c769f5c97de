"""Sets deletion costs of pods before a scale-down, and removes them after it (semantics 8.14)."""

from collections.abc import Mapping
from functools import partial

from autoscaler import clock
from autoscaler.core.writes import FIELD_MANAGER, UnsetCosts
from autoscaler.kubernetes.api import APPLY_PATCH, Api, JsonObject, path_of
from autoscaler.kubernetes.election import WriteGate
from autoscaler.kubernetes.failures import Failure
from autoscaler.kubernetes.pods import DELETION_COST, OUR_DELETION_COST
from autoscaler.kubernetes.reflector import OperatorNotes
from autoscaler.transport.retries import FailureKind

_FORBIDDEN, _NOT_FOUND, _CONFLICT, _INVALID = 403, 404, 409, 422


class DeletionCosts:
    """Writes `controller.kubernetes.io/pod-deletion-cost` by server-side apply.

    So the API server refuses a change of another client's value (409), and removes only our own.
    No request is retried: the scale-down must not wait. The ``notes`` are sent once per cause.
    """

    def __init__(self, api: Api, gate: WriteGate, notes: OperatorNotes) -> None:
        self._api = api
        self._gate = gate
        self._notes = notes

    def apply(self, namespace: str, costs: Mapping[str, int | None], deadline: float) -> UnsetCosts:
        """Set the costs of pods by name, or remove ours (None), until the deadline.

        Returns the pods that did not get their cost.
        """
        unset: list[str] = []
        for done, (pod, cost) in enumerate(costs.items()):
            answer = self._apply(namespace, pod, cost, deadline)
            if isinstance(answer, Failure) and not _is_of_one_pod(answer):
                left = list(costs)[done:]
                self._note_failure(namespace, f"{len(left)} of {len(costs)}", answer)
                unset += [name for name in left if costs[name] is not None]
                return UnsetCosts(tuple(unset), answer.message)
            if isinstance(answer, Failure) and cost is not None:
                unset.append(pod)
        self._notes.resolved(
            namespace, f"deletion costs in namespace {namespace} can be changed again"
        )
        return UnsetCosts(tuple(unset))

    def _note_failure(self, namespace: str, pods: str, failure: Failure) -> None:
        """Report a failure, unless this process may no longer write."""
        if failure.kind is not FailureKind.WITHHELD:
            of = f"the deletion costs of {pods} pods in namespace {namespace}"
            self._notes.notify(namespace, f"{of} were not changed: {failure.message}")

    def _apply(
        self, namespace: str, pod: str, cost: int | None, deadline: float
    ) -> JsonObject | Failure:
        values = {} if cost is None else {DELETION_COST: str(cost), OUR_DELETION_COST: str(cost)}
        metadata = {"name": pod, "namespace": namespace, "annotations": values}
        return self._api.once(
            "PATCH",
            path_of("v1", "pods", namespace, pod),
            deadline,
            query={"fieldManager": FIELD_MANAGER},
            body={"apiVersion": "v1", "kind": "Pod", "metadata": metadata},
            content_type=APPLY_PATCH,
            may_send=partial(self._may_send, namespace),
        )

    def _may_send(self, namespace: str) -> bool:
        return self._gate.may_write_until(namespace) > clock.monotonic()


def _is_of_one_pod(failure: Failure) -> bool:
    """Return whether other pods may succeed: this one is gone, or has a cost of another client.

    For a pod that is gone, apply tries to create one, which is forbidden or invalid.
    """
    if failure.status == _FORBIDDEN:
        return "cannot create resource" in failure.message
    return failure.status in {_CONFLICT, _NOT_FOUND, _INVALID}
