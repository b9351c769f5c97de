"""A Lease of `coordination.k8s.io/v1`: read it, and write it over what was read."""

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime

from autoscaler.adapters.cluster.api import MALFORMED, Api, JsonObject, path_of
from autoscaler.adapters.cluster.failures import Failure, malformed
from autoscaler.core.election import LeaseRecord

_GROUP_VERSION = "coordination.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease as the server sent it: its record, and the whole object, which a write must keep."""

    record: LeaseRecord
    document: JsonObject = field(repr=False)


class Leases:
    """One Lease, by its namespace and name.  Each method sends one request, once."""

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self._api = api
        self._metadata = {"name": name, "namespace": namespace}
        self._path = path_of(_GROUP_VERSION, "leases", namespace, name)

    def __str__(self) -> str:
        """Name the Lease, for messages."""
        return f"the Lease {self._metadata['namespace']}/{self._metadata['name']}"

    def read(self, deadline: float) -> Lease | Failure | None:
        """Read it; None where there is none."""
        lease = self._send("GET", self._path, deadline)
        missing = isinstance(lease, Failure) and lease.missing == self._metadata["name"]
        return None if missing else lease

    def write(self, record: LeaseRecord, over: Lease | None, deadline: float) -> Lease | Failure:
        """Write a record over the Lease that was read, or make the Lease where there was none.

        409 means that it was written by others meanwhile, 404 that the Lease, or before a first
        one its namespace, does not exist.
        """
        spec = {
            "holderIdentity": record.holder,
            # Whole seconds, rounded up: other candidates may wait longer, never shorter.
            "leaseDurationSeconds": max(1, math.ceil(record.duration)),
            "acquireTime": _micro_time(record.acquired),
            "renewTime": _micro_time(record.renewed),
            "leaseTransitions": record.transitions,
        }
        if over is not None:
            old = over.document
            body = {**old, "spec": {**(old.get("spec") or {}), **spec}}
            return self._send("PUT", self._path, deadline, body)
        new = {"apiVersion": _GROUP_VERSION, "kind": "Lease", "metadata": self._metadata}
        return self._send("POST", self._path.rpartition("/")[0], deadline, {**new, "spec": spec})

    def _send(
        self, method: str, path: str, deadline: float, body: JsonObject | None = None
    ) -> Lease | Failure:
        answer = self._api.once(method, path, deadline, body=body)
        if isinstance(answer, Failure):
            return answer
        try:
            spec = answer.get("spec") or {}
            record = LeaseRecord(
                holder=str(spec.get("holderIdentity") or ""),
                duration=float(spec.get("leaseDurationSeconds") or 0),
                acquired=_seconds(spec.get("acquireTime")),
                renewed=_seconds(spec.get("renewTime")),
                transitions=int(spec.get("leaseTransitions") or 0),
                version=answer["metadata"]["resourceVersion"],
            )
        except MALFORMED:
            return malformed(self._api.server, "something that is not a Lease")
        return Lease(record, answer)


def _seconds(micro_time: str | None) -> float | None:
    return None if micro_time is None else datetime.fromisoformat(micro_time).timestamp()


def _micro_time(seconds: float | None) -> str | None:
    """Write a time as `metav1.MicroTime`: RFC 3339 in UTC with six decimals."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
