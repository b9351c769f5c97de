"""The node that runs all pods: it starts them, and stops them once they are deleted."""

from autoscaler.demo.apiserver import status
from autoscaler.demo.apiserver.objects import KubeObject, key, meta, timestamp
from autoscaler.demo.apiserver.resources import PODS
from autoscaler.demo.apiserver.store import ObjectStore

NAME = "stand-in"


class Node:
    """Takes every pod at once.

    A pod is Running and Ready ``ready_after`` seconds after that, and gone ``stop_after``
    seconds after its deletion, or once its finalizers are gone.
    """

    def __init__(self, store: ObjectStore, ready_after: float, stop_after: float) -> None:
        self._store = store
        self._ready_after = ready_after
        self._stop_after = stop_after
        self._starting: dict[str, float] = {}
        self._stopping: dict[str, float] = {}

    def step(self, monotonic: float, wall: float) -> float | None:
        """Do what is due; return the next instant (monotonic) at which something is due, if any."""
        now = timestamp(wall)
        pods = self._store.list_all(PODS)[0]
        uids = {meta(pod)["uid"] for pod in pods}
        for times in (self._starting, self._stopping):
            for uid in times.keys() - uids:
                del times[uid]
        for pod in pods:
            with status.if_there():
                if "deletionTimestamp" in meta(pod):
                    self._stop(pod, monotonic)
                else:
                    self._start(pod, monotonic, now)
        return min((*self._starting.values(), *self._stopping.values()), default=None)

    def _start(self, pod: KubeObject, monotonic: float, now: str) -> None:
        uid = meta(pod)["uid"]
        if not pod["spec"].get("nodeName"):
            self._starting[uid] = monotonic + self._ready_after
            self._store.update(PODS, *key(pod), lambda found: _scheduled(found, now))
        if uid in self._starting and monotonic >= self._starting[uid]:
            del self._starting[uid]
            self._store.update(PODS, *key(pod), lambda found: _running(found, now))

    def _stop(self, pod: KubeObject, monotonic: float) -> None:
        uid = meta(pod)["uid"]
        self._starting.pop(uid, None)
        if meta(pod).get("finalizers"):
            return
        if monotonic >= self._stopping.setdefault(uid, monotonic + self._stop_after):
            del self._stopping[uid]
            self._store.delete(PODS, *key(pod))


def _condition(kind: str, value: str, now: str) -> KubeObject:
    return {"type": kind, "status": value, "lastProbeTime": None, "lastTransitionTime": now}


def _scheduled(pod: KubeObject, now: str) -> KubeObject:
    pod["spec"]["nodeName"] = NAME
    pod["status"] |= {
        "phase": "Pending",
        "startTime": now,
        "conditions": [
            _condition("Initialized", "True", now),
            _condition("Ready", "False", now) | {"reason": "ContainersNotReady"},
            _condition("ContainersReady", "False", now) | {"reason": "ContainersNotReady"},
            _condition("PodScheduled", "True", now),
        ],
    }
    return pod


def _running(pod: KubeObject, now: str) -> KubeObject:
    others = [
        condition
        for condition in pod["status"]["conditions"]
        if condition["type"] not in {"Ready", "ContainersReady"}
    ]
    ready = [_condition(kind, "True", now) for kind in ("Ready", "ContainersReady")]
    pod["status"] |= {"phase": "Running", "conditions": [*others, *ready]}
    return pod
