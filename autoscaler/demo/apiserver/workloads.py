"""The controllers: pods and status of workloads, and garbage collection.

A Deployment's pods are its own, without a ReplicaSet between.
"""

import copy

from autoscaler.demo.apiserver import admission, status
from autoscaler.demo.apiserver.objects import KubeObject, is_ready, key, meta, timestamp
from autoscaler.demo.apiserver.registry import Registry
from autoscaler.demo.apiserver.resources import (
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    STATEFUL_SETS,
    WORKLOADS,
    Resource,
)
from autoscaler.demo.apiserver.store import ObjectStore


class WorkloadControllers:
    """Brings the pods and the status of every workload to its spec."""

    def __init__(self, store: ObjectStore, registry: Registry) -> None:
        self._store = store
        self._registry = registry

    def step(self, wall: float) -> None:
        """Do all that can be done now; ``wall`` is the Unix time in seconds."""
        now = timestamp(wall)
        for resource in WORKLOADS:
            for workload in self._store.list_all(resource)[0]:
                with status.if_there():
                    if "deletionTimestamp" not in self._namespace_of(workload):
                        self._scale(resource, workload, now)
                    self._report(resource, workload)
        self._collect(now)
        self._finish_namespaces()

    def _namespace_of(self, workload: KubeObject) -> KubeObject:
        return meta(self._store.get(NAMESPACES, "", meta(workload)["namespace"]))

    def _pods_of(self, workload: KubeObject) -> list[KubeObject]:
        uid = meta(workload)["uid"]
        return [pod for pod in self._store.list_all(PODS)[0] if owner_uid(pod) == uid]

    def _scale(self, resource: Resource, workload: KubeObject, now: str) -> None:
        wanted, pods = workload["spec"]["replicas"], self._pods_of(workload)
        if resource is STATEFUL_SETS:
            self._scale_in_order(workload, wanted, pods, now)
            return
        live = [pod for pod in pods if alive(pod)]
        for _ in range(wanted - len(live)):
            self._make(workload, "")
        # Those that serve nothing yet go first, then the youngest.
        live.sort(key=lambda pod: (not is_ready(pod), meta(pod)["creationTimestamp"]), reverse=True)
        for pod in live[: max(0, len(live) - wanted)]:
            self._delete_pod(pod, now)

    def _scale_in_order(
        self, workload: KubeObject, wanted: int, pods: list[KubeObject], now: str
    ) -> None:
        """Scale a StatefulSet: one pod at a time, in order, unless its policy is Parallel."""
        parallel = workload["spec"].get("podManagementPolicy") == "Parallel"
        taken = {_ordinal(pod) for pod in pods}
        settled = all(alive(pod) and is_ready(pod) for pod in pods)
        missing = [ordinal for ordinal in range(wanted) if ordinal not in taken]
        for ordinal in missing if parallel else missing[: 1 if settled else 0]:
            self._make(workload, f"{meta(workload)['name']}-{ordinal}")
        extra = sorted((pod for pod in pods if _ordinal(pod) >= wanted), key=_ordinal)
        if not parallel:
            extra = extra[-1:] if all(alive(pod) for pod in pods) else []
        for pod in extra:
            self._delete_pod(pod, now)

    def _make(self, workload: KubeObject, name: str) -> None:
        template = copy.deepcopy(workload["spec"].get("template") or {})
        owner = {
            "apiVersion": workload["apiVersion"],
            "kind": workload["kind"],
            "name": meta(workload)["name"],
            "uid": meta(workload)["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        naming = {"name": name} if name else {"generateName": f"{meta(workload)['name']}-"}
        pod = {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {**meta(template), **naming, "ownerReferences": [owner]},
            "spec": template.get("spec") or {},
        }
        self._store.create(PODS, admission.for_create(PODS, meta(workload)["namespace"], pod))

    def _report(self, resource: Resource, workload: KubeObject) -> None:
        """Write the workload's status."""
        live = [pod for pod in self._pods_of(workload) if alive(pod)]
        ready = sum(is_ready(pod) for pod in live)
        counts = {"replicas": len(live), "readyReplicas": ready, "availableReplicas": ready}
        if resource in {DEPLOYMENTS, STATEFUL_SETS}:
            counts["updatedReplicas"] = len(live)
        # Counts of zero are left out, except where the type requires the field.
        found = {
            name: count
            for name, count in counts.items()
            if count or (name == "replicas" and resource is not DEPLOYMENTS)
        }
        found["observedGeneration"] = meta(workload)["generation"]
        if workload.get("status") != found:
            self._store.update(resource, *key(workload), lambda obj: {**obj, "status": found})

    def _collect(self, now: str) -> None:
        """Delete the pods of workloads that are gone."""
        owners = {
            meta(workload)["uid"]
            for resource in WORKLOADS
            for workload in self._store.list_all(resource)[0]
        }
        for pod in self._store.list_all(PODS)[0]:
            owner = owner_uid(pod)
            if owner is not None and owner not in owners:
                self._delete_pod(pod, now)

    def _finish_namespaces(self) -> None:
        """Empty the namespaces that are terminating, then remove them."""
        for namespace in self._store.list_all(NAMESPACES)[0]:
            if "deletionTimestamp" not in meta(namespace):
                continue
            for resource in self._registry.resources():
                for obj in self._store.list_all(resource)[0]:
                    if meta(obj).get("namespace") == meta(namespace)["name"]:
                        with status.if_there():
                            self._store.delete(resource, *key(obj))
            with status.if_there():
                self._store.delete(NAMESPACES, *key(namespace))

    def _delete_pod(self, pod: KubeObject, now: str) -> None:
        def mark(found: KubeObject) -> KubeObject:
            meta(found).setdefault("deletionTimestamp", now)
            meta(found).setdefault("deletionGracePeriodSeconds", 30)
            return found

        with status.if_there():
            self._store.update(PODS, *key(pod), mark)


def alive(pod: KubeObject) -> bool:
    """Return whether the pod counts for its workload: neither deleted nor at its end."""
    phase = (pod.get("status") or {}).get("phase")
    return "deletionTimestamp" not in meta(pod) and phase not in {"Failed", "Succeeded"}


def owner_uid(pod: KubeObject) -> str | None:
    """Return the uid of the controller that owns the pod."""
    for owner in meta(pod).get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner["uid"])
    return None


def _ordinal(pod: KubeObject) -> int:
    return int(meta(pod)["name"].rpartition("-")[2])
