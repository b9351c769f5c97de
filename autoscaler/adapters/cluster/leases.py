"""A Lease of `coordination.k8s.io/v1`: read it, and write it over what was read."""

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypedDict, cast

from autoscaler.adapters.cluster.api import Api
from autoscaler.adapters.cluster.failures import Failure, malformed
from autoscaler.adapters.cluster.objects import MALFORMED, JsonObject, MetadataJson, path_of
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
        self._namespace = namespace
        self._name = name
        self._path = path_of(_GROUP_VERSION, "leases", namespace, name)

    def __str__(self) -> str:
        """Name the Lease, for messages."""
        return f"the Lease {self._namespace}/{self._name}"

    def read(self, deadline: float) -> Lease | Failure | None:
        """Read it; None where there is none."""
        answer = self._api.once("GET", self._path, deadline)
        if isinstance(answer, Failure):
            return None if answer.missing == self._name else answer
        return self._lease_of(answer)

    def write(self, record: LeaseRecord, over: Lease | None, deadline: float) -> Lease | Failure:
        """Write a record over the Lease that was read, or make the Lease where there was none.

        409 means that it was written by others meanwhile, 404 that the Lease, or before a first
        one its namespace, does not exist.
        """
        if over is None:
            new: JsonObject = {
                "apiVersion": _GROUP_VERSION,
                "kind": "Lease",
                "metadata": {"name": self._name, "namespace": self._namespace},
                "spec": _spec(record),
            }
            path = path_of(_GROUP_VERSION, "leases", self._namespace)
            answer = self._api.once("POST", path, deadline, body=new)
        else:
            spec = cast("_LeaseJson", over.document).get("spec") or {}
            body = {**over.document, "spec": {**spec, **_spec(record)}}
            answer = self._api.once("PUT", self._path, deadline, body=body)
        return answer if isinstance(answer, Failure) else self._lease_of(answer)

    def _lease_of(self, document: JsonObject) -> Lease | Failure:
        try:
            return Lease(_record(cast("_LeaseJson", document)), document)
        except MALFORMED:
            return malformed(self._api.server, "something that is not a Lease")


class _SpecJson(TypedDict, total=False):
    holderIdentity: str | None
    leaseDurationSeconds: int | None
    acquireTime: str | None
    renewTime: str | None
    leaseTransitions: int | None


class _LeaseJson(TypedDict, total=False):
    metadata: MetadataJson
    spec: _SpecJson | None


def _record(lease: _LeaseJson) -> LeaseRecord:
    spec = lease.get("spec") or {}
    return LeaseRecord(
        holder=str(spec.get("holderIdentity") or ""),
        duration=float(spec.get("leaseDurationSeconds") or 0),
        acquired=_seconds(spec.get("acquireTime")),
        renewed=_seconds(spec.get("renewTime")),
        transitions=int(spec.get("leaseTransitions") or 0),
        version=lease["metadata"]["resourceVersion"],
    )


def _spec(record: LeaseRecord) -> _SpecJson:
    return {
        "holderIdentity": record.holder,
        # Whole seconds, rounded up: other candidates may wait longer, never shorter.
        "leaseDurationSeconds": max(1, math.ceil(record.duration)),
        "acquireTime": _micro_time(record.acquired),
        "renewTime": _micro_time(record.renewed),
        "leaseTransitions": record.transitions,
    }


def _seconds(micro_time: str | None) -> float | None:
    return None if micro_time is None else datetime.fromisoformat(micro_time).timestamp()


def _micro_time(seconds: float | None) -> str | None:
    """Write a time as `metav1.MicroTime`: RFC 3339 in UTC with six decimals."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
