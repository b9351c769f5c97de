"""The Deployment controller, and the node that runs all pods.

A Deployment's pods are its own, without a ReplicaSet between.
"""

import copy
import random
from collections import defaultdict
from collections.abc import Sequence

from autoscaler.demo.apiserver.store import (
    DEPLOYMENTS,
    PODS,
    KubeObject,
    ObjectStore,
    if_there,
    is_ready,
    key,
    meta,
    timestamp,
)

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_OF_REPLICA_SETS = "7d9fbb8c4d"


class Controllers:
    """Brings pods and status of every Deployment to its spec.

    A pod is Running and Ready ``ready_after`` seconds after it was made, and gone at once when it
    is deleted.
    """

    def __init__(self, store: ObjectStore, ready_after: float) -> None:
        self._store = store
        self._ready_after = ready_after
        self._ready_at: dict[str, float] = {}
        """By the uid of a pod, when it becomes ready."""

    def step(self, monotonic: float, wall: float) -> float | None:
        """Do what is due; return the next instant (monotonic) at which something is due, if any.

        ``wall`` is the Unix time in seconds.
        """
        now = timestamp(wall)
        all_pods = self._store.list_all(PODS)[0]
        uids = {meta(pod)["uid"] for pod in all_pods}
        self._ready_at = {uid: at for uid, at in self._ready_at.items() if uid in uids}
        by_owner: dict[str, list[KubeObject]] = defaultdict(list)
        for pod in all_pods:
            with if_there():
                self._run(pod, monotonic, now)
            for owner in meta(pod).get("ownerReferences") or ():
                by_owner[owner["uid"]].append(pod)
        for obj in self._store.list_all(DEPLOYMENTS)[0]:
            pods = by_owner.pop(meta(obj)["uid"], [])
            with if_there():
                self._report(obj, pods)
                self._scale(obj, pods)
        for orphans in by_owner.values():
            self._delete(orphans)
        return min(self._ready_at.values(), default=None)

    def _run(self, pod: KubeObject, monotonic: float, now: str) -> None:
        """Start a new pod, and report it as ready when its time has come."""
        uid, phase = meta(pod)["uid"], (pod.get("status") or {}).get("phase")
        if phase is None:
            self._ready_at[uid] = monotonic + self._ready_after
            started = {"phase": "Pending", "startTime": now, "conditions": [_ready("False", now)]}
            self._store.update(PODS, *key(pod), lambda obj: {**obj, "status": started})
        elif monotonic >= self._ready_at.get(uid, float("inf")):
            del self._ready_at[uid]
            running = {**pod["status"], "phase": "Running", "conditions": [_ready("True", now)]}
            self._store.update(PODS, *key(pod), lambda obj: {**obj, "status": running})

    def _scale(self, obj: KubeObject, pods: Sequence[KubeObject]) -> None:
        surplus = len(pods) - obj["spec"]["replicas"]
        for _ in range(-surplus):
            self._store.create(PODS, meta(obj)["namespace"], _pod_of(obj))
        # Those that serve nothing yet go first, then the youngest.
        youngest = sorted(pods, key=lambda pod: meta(pod)["creationTimestamp"], reverse=True)
        self._delete(sorted(youngest, key=is_ready)[: max(0, surplus)])

    def _report(self, obj: KubeObject, pods: Sequence[KubeObject]) -> None:
        """Write the Deployment's status, in which counts of zero are left out."""
        ready = sum(map(is_ready, pods))
        counts = {
            "replicas": len(pods),
            "updatedReplicas": len(pods),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "observedGeneration": meta(obj)["generation"],
        }
        status = {name: count for name, count in counts.items() if count}
        if obj.get("status") != status:
            self._store.update(DEPLOYMENTS, *key(obj), lambda old: {**old, "status": status})

    def _delete(self, pods: Sequence[KubeObject]) -> None:
        for pod in pods:
            with if_there():
                self._store.delete(PODS, *key(pod))


def _pod_of(obj: KubeObject) -> KubeObject:
    """Return a new pod of a Deployment."""
    template = copy.deepcopy(obj["spec"]["template"])
    suffix = "".join(random.choices(_SUFFIX_LETTERS, k=5))  # noqa: S311 - a name, not a secret
    owner = {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": meta(obj)["name"],
        "uid": meta(obj)["uid"],
        "controller": True,
    }
    # As if a ReplicaSet existed: clients find a Deployment's pods by such names.
    name = f"{meta(obj)['name']}-{_OF_REPLICA_SETS}-{suffix}"
    named = {"name": name, "ownerReferences": [owner]}
    return {"metadata": {**meta(template), **named}, "spec": template.get("spec") or {}}


def _ready(value: str, now: str) -> KubeObject:
    return {"type": "Ready", "status": value, "lastTransitionTime": now}
