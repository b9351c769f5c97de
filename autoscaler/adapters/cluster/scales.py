"""The scale subresource: read it, and write it unless somebody else did meanwhile."""

from typing import TypedDict, cast

from autoscaler import clock
from autoscaler.adapters.cluster.api import Api
from autoscaler.adapters.cluster.failures import MALFORMED, Failure, JsonObject, malformed
from autoscaler.adapters.cluster.kinds import ScalableKinds, ScalableResource
from autoscaler.adapters.cluster.scale_writes import ScaleWrite
from autoscaler.core.contention import FIELD_MANAGER
from autoscaler.core.observation import Scale, Unavailable
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.writes import WriteFailed, WriteOutcome
from autoscaler.transport.write_gate import ALWAYS_OPEN, WriteGate


class Scales:
    """Fits `sync.ports.ScaleReader` and `ScaleWriter`, for every kind that has a scale.

    The ``gate`` is asked before each try of a write.
    """

    def __init__(self, api: Api, gate: WriteGate = ALWAYS_OPEN) -> None:
        self._api = api
        self._gate = gate
        self._kinds = ScalableKinds(api)

    def read(self, namespace: str, ref: ScaleTargetRef, deadline: float) -> Scale | Unavailable:
        """Read the scale; the message of Unavailable names the object and the cause."""
        resource = self._kinds.find(ref, deadline)
        if isinstance(resource, Failure):
            return Unavailable(resource.message)
        scale = self._get(resource, namespace, ref.name, deadline)
        if isinstance(scale, Failure) and scale.status == 404 and not scale.missing:
            # The path itself is unknown: the version is no longer served, or the CRD is gone.
            resource = self._kinds.rediscover(ref, deadline)
            if isinstance(resource, Failure):
                return Unavailable(resource.message)
            scale = self._get(resource, namespace, ref.name, deadline)
        if isinstance(scale, Failure):
            return Unavailable(_in_namespace(scale, namespace))
        return scale

    def write(
        self, namespace: str, ref: ScaleTargetRef, scale: Scale, replicas: int, deadline: float
    ) -> WriteOutcome:
        """Set the replicas, if they are still those of ``scale``; see `ScaleWrite`."""
        resource = self._kinds.find(ref, deadline)
        if isinstance(resource, Failure):
            return WriteFailed(resource.message)
        path = resource.scale_path(namespace, ref.name)

        def look(until: float) -> Scale | Failure:
            answer = self._api.once("GET", path, until)
            return answer if isinstance(answer, Failure) else scale_of(answer, self._api.server)

        def put(version: str, until: float) -> Scale | Failure:
            body = _body(resource, namespace, ref.name, version, replicas)
            # What waits in a queue of the server, or in etcd's, ends when we give it up.
            seconds = min(self._api.request_timeout, max(0.001, until - clock.monotonic()))
            query = {"fieldManager": FIELD_MANAGER, "timeout": f"{seconds:.3f}s"}
            answer = self._api.once(
                "PUT", path, until, query=query, body=body, may_send=self._may_write
            )
            return answer if isinstance(answer, Failure) else scale_of(answer, self._api.server)

        write = ScaleWrite(look, put, scale, replicas, deadline, self._gate.may_write_until)
        outcome = write.carry_out(self._api.retrier)
        if isinstance(outcome, Failure):
            return WriteFailed(_in_namespace(outcome, namespace))
        return outcome

    def _may_write(self) -> bool:
        return self._gate.may_write_until() > clock.monotonic()

    def _get(
        self, resource: ScalableResource, namespace: str, name: str, deadline: float
    ) -> Scale | Failure:
        answer = self._api.get(resource.scale_path(namespace, name), deadline)
        return answer if isinstance(answer, Failure) else scale_of(answer, self._api.server)


class _MetadataJson(TypedDict, total=False):
    resourceVersion: str
    uid: str


class _SpecJson(TypedDict, total=False):
    replicas: int


class _StatusJson(TypedDict, total=False):
    replicas: int
    selector: object
    targetSelector: str


class _ScaleJson(TypedDict, total=False):
    metadata: _MetadataJson
    spec: _SpecJson
    status: _StatusJson


def scale_of(document: JsonObject, server: str) -> Scale | Failure:
    """Read `autoscaling/v1` Scale; an absent count is 0, as the API omits zeros.

    `extensions/v1beta1`, which OpenShift's DeploymentConfig still answers with, has the
    selector's string form in `targetSelector`.
    """
    scale = cast("_ScaleJson", document)
    try:
        metadata, spec, status = (
            scale["metadata"],
            scale.get("spec") or {},
            scale.get("status") or {},
        )
        selector = status.get("selector", "")
        return Scale(
            spec_replicas=int(spec.get("replicas", 0)),
            status_replicas=int(status.get("replicas", 0)),
            selector=selector if isinstance(selector, str) else status.get("targetSelector", ""),
            resource_version=metadata.get("resourceVersion", ""),
            uid=metadata.get("uid", ""),
        )
    except MALFORMED:
        return malformed(server, "something that is not a Scale")


def _body(
    resource: ScalableResource, namespace: str, name: str, version: str, replicas: int
) -> JsonObject:
    return {
        "apiVersion": resource.scale_api_version,
        "kind": "Scale",
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": version},
        "spec": {"replicas": replicas},
    }


def _in_namespace(failure: Failure, namespace: str) -> str:
    """Complete the API server's words for a missing object: they leave the namespace out."""
    if failure.missing:
        return f'{failure.message} in namespace "{namespace}"'
    return failure.message
