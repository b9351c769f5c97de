"""Other autoscalers of one object, which `autoscaler adopt` takes away and brings back.

They are HorizontalPodAutoscalers, and ScaledObjects of KEDA, which makes a HorizontalPodAutoscaler
of each as long as it is not paused.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from autoscaler import clock
from autoscaler.core.observation import Unavailable
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.text import printable, rfc3339
from autoscaler.core.writes import WriteFailed, Written
from autoscaler.kubernetes.api import MALFORMED, MERGE_PATCH, Api, JsonObject, path_of, read_list
from autoscaler.kubernetes.autoscalers import KEDA_KIND, scaled_object_of
from autoscaler.kubernetes.failures import Failure, malformed
from autoscaler.kubernetes.rights import Right, lacking
from autoscaler.kubernetes.scales import Scales

PAUSED = "autoscaling.keda.sh/paused"
PAUSED_REPLICAS = "autoscaling.keda.sh/paused-replicas"
HPA_KIND = "HorizontalPodAutoscaler"

_VERSIONS = {HPA_KIND: "autoscaling/v2", KEDA_KIND: "keda.sh/v1alpha1"}
_PLURALS = {HPA_KIND: "horizontalpodautoscalers", KEDA_KIND: "scaledobjects"}
_ROLE = "the role in docs/guides/migrate.md"
_NOT_FOUND, _CONFLICT = 404, 409
_LONGEST_NAME = 253
_PAGE = 250
_REQUEST_SECONDS = 30.0
_FIELD_MANAGER = "autoscaler-adopt"
_OF_THE_SERVER = ("managedFields", "uid", "resourceVersion", "generation", "creationTimestamp")
"""Metadata that no manifest has; with a resourceVersion it could not be created again."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """What scales an object besides us; a ScaledObject has an autoscaler unless it is paused."""

    autoscalers: tuple[JsonObject, ...] = ()
    scaled_objects: tuple[JsonObject, ...] = ()


class ReplacedAutoscalers:
    """Reads and changes the other autoscalers of one object; each method has its own deadline."""

    def __init__(self, api: Api, namespace: str, ref: ScaleTargetRef) -> None:
        self._api = api
        self._namespace = namespace
        self._ref = ref
        self._scales = Scales(api)

    def find(self) -> Replaced | Failure:
        """Return those that name the object, by group, kind and name."""
        autoscalers = self._list(HPA_KIND)
        if isinstance(autoscalers, Failure):
            return autoscalers
        scaled_objects = self._list(KEDA_KIND)
        if isinstance(scaled_objects, Failure):
            # Without KEDA there are none; who may not list them may have none.
            if scaled_objects.status != _NOT_FOUND and any(
                scaled_object_of(one["metadata"]) for one in autoscalers
            ):
                return scaled_objects
            scaled_objects = ()
        return Replaced(autoscalers, scaled_objects)

    def lacking(self, kind: str, *verbs: str, subresource: str = "") -> list[str]:
        """Return a sentence for the rights to a kind that the user lacks."""
        group, plural = _VERSIONS[kind].partition("/")[0], _PLURALS[kind] + subresource
        otherwise = "the other autoscaler cannot be taken away or brought back"
        rights = (
            Right(verb, group, plural, (self._namespace,), otherwise, _ROLE) for verb in verbs
        )
        return [right.sentence for right in lacking(self._api, rights, _deadline())]

    def delete(self, autoscaler: JsonObject) -> Failure | None:
        """Delete a HorizontalPodAutoscaler if it is as it was read; a 409 says that it is not."""
        metadata = autoscaler["metadata"]
        preconditions = {key: metadata[key] for key in ("uid", "resourceVersion")}
        body: JsonObject = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions,
        }
        # One that was carried out and not answered finds nothing the next time.
        answer = self._send("DELETE", self._path(HPA_KIND, metadata["name"]), body)
        gone = isinstance(answer, Failure) and answer.status == _NOT_FOUND
        return answer if isinstance(answer, Failure) and not gone else None

    def create(self, manifest: JsonObject) -> JsonObject | Failure:
        """Create a HorizontalPodAutoscaler; one of its name that is there is returned as it is."""
        answer = self._send("POST", self._path(HPA_KIND), manifest)
        if isinstance(answer, Failure) and answer.status == _CONFLICT:
            return self._api.get(self._path(HPA_KIND, manifest["metadata"]["name"]), _deadline())
        return answer

    def count(self) -> int | Failure:
        """Return the replicas of the object."""
        scale = self._scales.read(self._namespace, self._ref, _deadline())
        return Failure(scale.message) if isinstance(scale, Unavailable) else scale.spec_replicas

    def wake(self, replicas: int) -> bool | Failure:
        """Set the replicas of the object if they are 0; return whether they were."""
        deadline = _deadline()
        scale = self._scales.read(self._namespace, self._ref, deadline)
        if isinstance(scale, Unavailable):
            return Failure(scale.message)
        if scale.spec_replicas:
            return False
        outcome = self._scales.write(self._namespace, self._ref, scale, replicas, deadline)
        if isinstance(outcome, WriteFailed):
            return Failure(outcome.message)
        return isinstance(outcome, Written)

    def keep_awake(self, scaled_object: JsonObject) -> Failure | None:
        """Have KEDA count its cooldown from now, and not from the last activity that it saw."""
        body: JsonObject = {"status": {"lastActiveTime": rfc3339(clock.wall())}}
        return self._patch(scaled_object["metadata"]["name"], body, "/status")

    def pause(self, scaled_object: JsonObject, *, on: bool) -> Failure | None:
        """Pause a ScaledObject, or end its pause; KEDA deletes or makes its autoscaler then."""
        body: JsonObject = {"metadata": {"annotations": {PAUSED: "true" if on else None}}}
        return self._patch(scaled_object["metadata"]["name"], body)

    def _patch(self, name: str, body: JsonObject, subresource: str = "") -> Failure | None:
        answer = self._send("PATCH", self._path(KEDA_KIND, name) + subresource, body)
        return answer if isinstance(answer, Failure) else None

    def _send(self, method: str, path: str, body: JsonObject) -> JsonObject | Failure:
        deadline = _deadline()
        query = {} if method == "DELETE" else {"fieldManager": _FIELD_MANAGER}
        kind = MERGE_PATCH if method == "PATCH" else "application/json"
        send = partial(self._api.once, method, path, deadline, query=query, body=body)
        return self._api.retrier.call(partial(send, content_type=kind), deadline)

    def controls(self, other: JsonObject) -> bool:
        """Return whether another autoscaler names the object; raises one of MALFORMED."""
        named = other["spec"]["scaleTargetRef"]
        # A ScaledObject may leave out what is usual.
        usual = ("apps/v1", "Deployment") if other["kind"] == KEDA_KIND else ("", "")
        group = (named.get("apiVersion") or usual[0]).rpartition("/")[0]
        ref = self._ref
        found = (group, named.get("kind") or usual[1], named["name"])
        return found == (ref.group, ref.kind, ref.name)

    def _list(self, kind: str) -> tuple[JsonObject, ...] | Failure:
        found: list[JsonObject] = []

        def add(items: list[JsonObject]) -> None:
            # Items of a list have neither of the two.
            whole = ({**one, "apiVersion": _VERSIONS[kind], "kind": kind} for one in items)
            found.extend(one for one in whole if self.controls(one))

        deadline = _deadline()
        path = self._path(kind)
        try:
            listed = read_list(lambda query: self._api.get(path, deadline, query), add, {}, _PAGE)
        except MALFORMED:
            return malformed(self._api.server, f"no list of {_PLURALS[kind]}")
        return listed if isinstance(listed, Failure) else tuple(found)

    def _path(self, kind: str, name: str = "") -> str:
        return path_of(_VERSIONS[kind], _PLURALS[kind], self._namespace, name)


def as_manifest(other: JsonObject) -> JsonObject:
    """Return what can be applied again: the object without what the API server adds."""
    metadata = {key: one for key, one in other["metadata"].items() if key not in _OF_THE_SERVER}
    rest = {key: one for key, one in other.items() if key not in {"metadata", "status"}}
    return {"apiVersion": other["apiVersion"], "kind": other["kind"], "metadata": metadata, **rest}


def is_same(one: JsonObject, other: JsonObject) -> bool:
    """Return whether two readings are of one object that nobody has edited in between."""
    same_uid = one["metadata"]["uid"] == other["metadata"]["uid"]
    return same_uid and as_manifest(one) == as_manifest(other)


def may_sleep(scaled_object: JsonObject) -> bool:
    """Return whether KEDA takes a ScaledObject without activity below what its HPA may have."""
    spec = scaled_object["spec"]
    return not spec.get("minReplicaCount") or spec.get("idleReplicaCount") is not None


def is_paused(scaled_object: JsonObject) -> bool:
    """Return whether KEDA leaves a ScaledObject alone: also by a value that is no boolean."""
    value = _annotations(scaled_object).get(PAUSED)
    return value is not None and value.lower() not in {"false", "f", "0"}


def returns_by(other: JsonObject) -> Iterator[str]:
    """Yield who would bring a deleted object back, or undo a change of it: Helm, Argo CD, Flux."""
    labels, annotations = _labels(other), _annotations(other)
    for name, key, of in _OWNERS:
        value = labels.get(key) or annotations.get(key)
        if value:
            yield f"{name} ({of} {printable(value, _LONGEST_NAME)})"
    if labels.get("app.kubernetes.io/managed-by") == "Helm" and _HELM not in annotations:
        yield "Helm"


def _labels(other: JsonObject) -> dict[str, str]:
    return other["metadata"].get("labels") or {}


def _annotations(other: JsonObject) -> dict[str, str]:
    return other["metadata"].get("annotations") or {}


_HELM = "meta.helm.sh/release-name"
_OWNERS = (
    ("Argo CD", "argocd.argoproj.io/tracking-id", "as"),
    ("Argo CD", "argocd.argoproj.io/instance", "application"),
    ("Flux", "kustomize.toolkit.fluxcd.io/name", "Kustomization"),
    ("Flux", "helm.toolkit.fluxcd.io/name", "HelmRelease"),
    ("Helm", _HELM, "release"),
)


def _deadline() -> float:
    return clock.monotonic() + _REQUEST_SECONDS
