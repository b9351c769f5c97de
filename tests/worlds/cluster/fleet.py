"""Pods by the thousand, as large as an API server sends them, without a server."""

from collections.abc import Iterator

from tests.worlds.controlplane.api import Json

_FIELDS: Json = {f"f:field-number-{number}": {} for number in range(40)}
"""About as much bookkeeping as a pod carries in `managedFields`."""


def pod(app: int, number: int) -> Json:
    """Return a pod of a Deployment, ready, of about 5 kB."""
    name = f"app-{app}-6d4cf56db6-{number:05d}"
    labels = {"app": f"app-{app}", "env": "prod", "pod-template-hash": "6d4cf56db6"}
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "labels": labels,
            "resourceVersion": str(app * 100 + number),
            "uid": f"{app:08d}-0000-4000-8000-{number:012d}",
            "ownerReferences": [{"kind": "ReplicaSet", "name": f"app-{app}-6d4cf56db6"}],
            "managedFields": [{"manager": m, "fieldsV1": _FIELDS} for m in ("kcm", "kubelet")],
        },
        "spec": {
            "containers": [
                {
                    "name": container,
                    "image": "registry.example.com/app:1",
                    "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}},
                    "env": [{"name": f"NAME_{n}", "value": "value"} for n in range(10)],
                }
                for container in ("main", "proxy")
            ],
            "nodeName": "node-1",
        },
        "status": {
            "phase": "Running",
            "startTime": "2024-01-02T03:04:05Z",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2024-01-02T03:04:15Z"}
                for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
            ],
        },
    }


def pages(apps: int, pods_each: int, page: int = 500) -> Iterator[list[Json]]:
    """Yield all pods, page by page."""
    items: list[Json] = []
    for app in range(apps):
        for number in range(pods_each):
            items.append(pod(app, number))
            if len(items) == page:
                yield items
                items = []
    if items:
        yield items
