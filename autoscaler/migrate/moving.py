"""The state of one target that moves from another autoscaler to this one, or back.

Everything is read again at each step, from the daemon and the cluster. So an interrupted command
continues where it ended.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from autoscaler import clock
from autoscaler.agreement.differences import OF_AN_AUTOSCALER, own_fields
from autoscaler.agreement.sentences import AGREEMENT_SECONDS, EARLY, NOT_COMPARED, READY, field_text
from autoscaler.cli.output import CommandError
from autoscaler.cli.sources import DaemonSource, NotRunningError
from autoscaler.config.documents import documents
from autoscaler.config.written import as_written
from autoscaler.core.classification import State
from autoscaler.core.extensions import Mode
from autoscaler.core.observation import LONGEST_SENTENCE, ReadFailure
from autoscaler.core.spec import SOURCES, ScaleTargetRef
from autoscaler.core.target import Target
from autoscaler.core.text import printable, rfc3339
from autoscaler.core.writes import AcceptedWrite, WriteFailure
from autoscaler.file_contents import read_bytes, write_below
from autoscaler.kubernetes.api import MALFORMED, MERGE_PATCH, Api, JsonObject, path_of, read_list
from autoscaler.kubernetes.autoscalers import KEDA_KIND, scaled_object_of, words_of
from autoscaler.kubernetes.failures import Failure, malformed
from autoscaler.kubernetes.rights import Right, lacking
from autoscaler.kubernetes.scales import Scales
from autoscaler.rendering import wording
from autoscaler.rendering.answers import TargetState

# -- the other autoscalers -------------------------------------------------------------------------


PAUSED = "autoscaling.keda.sh/paused"
PAUSED_REPLICAS = "autoscaling.keda.sh/paused-replicas"
HPA_KIND = "HorizontalPodAutoscaler"

_VERSIONS = {HPA_KIND: "autoscaling/v2", KEDA_KIND: "keda.sh/v1alpha1"}
_PLURALS = {HPA_KIND: "horizontalpodautoscalers", KEDA_KIND: "scaledobjects"}
_ROLE = 'the role in the guide "Migrate"'
_NOT_FOUND, _CONFLICT = 404, 409
_LONGEST_OF_NAME = 253
_PAGE = 250
_REQUEST_SECONDS = 30.0
_FIELD_MANAGER = "autoscaler-adopt"
_OF_THE_SERVER = ("managedFields", "uid", "resourceVersion", "generation", "creationTimestamp")
"""Metadata that manifests lack; with a resourceVersion the object could not be created again."""


@dataclass(frozen=True, slots=True)
class ReplacedAutoscaler:
    """The other autoscaler of an object; a ScaledObject has an HPA unless it is paused."""

    autoscalers: tuple[JsonObject, ...] = ()
    scaled_objects: tuple[JsonObject, ...] = ()


class ReplacedAutoscalers:
    """Reads and changes the other autoscalers of one object; each method has its own deadline."""

    def __init__(self, api: Api, namespace: str, ref: ScaleTargetRef) -> None:
        self._api = api
        self._namespace = namespace
        self._ref = ref
        self._scales = Scales(api)

    def find(self) -> ReplacedAutoscaler | Failure:
        """Return those that name the object, by group, kind and name."""
        autoscalers = self._list(HPA_KIND)
        if isinstance(autoscalers, Failure):
            return autoscalers
        scaled_objects = self._list(KEDA_KIND)
        if isinstance(scaled_objects, Failure):
            # Without KEDA, or without the right to list them, there are no ScaledObjects.
            if scaled_objects.status != _NOT_FOUND and any(
                scaled_object_of(autoscaler["metadata"]) for autoscaler in autoscalers
            ):
                return scaled_objects
            scaled_objects = ()
        return ReplacedAutoscaler(autoscalers, scaled_objects)

    def lacking(self, kind: str, *verbs: str, subresource: str = "") -> list[str]:
        """Return a sentence for the user's missing rights to a kind."""
        group, plural = _VERSIONS[kind].partition("/")[0], _PLURALS[kind] + subresource
        otherwise = "the other autoscaler cannot be taken away or brought back"
        rights = (
            Right(verb, group, plural, (self._namespace,), otherwise, _ROLE) for verb in verbs
        )
        return [right.sentence for right in lacking(self._api, rights, _deadline())]

    def delete(self, autoscaler: JsonObject) -> Failure | None:
        """Delete a HorizontalPodAutoscaler if it has not changed since the read; else 409."""
        metadata = autoscaler["metadata"]
        preconditions = {key: metadata[key] for key in ("uid", "resourceVersion")}
        body: JsonObject = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions,
        }
        # A deletion that was executed but not answered finds nothing the next time.
        answer = self._send("DELETE", self._path(HPA_KIND, metadata["name"]), body)
        gone = isinstance(answer, Failure) and answer.status == _NOT_FOUND
        return answer if isinstance(answer, Failure) and not gone else None

    def create(self, manifest: JsonObject) -> JsonObject | Failure:
        """Create a HorizontalPodAutoscaler; an existing one with its name is returned."""
        answer = self._send("POST", self._path(HPA_KIND), manifest)
        if isinstance(answer, Failure) and answer.status == _CONFLICT:
            return self._api.get(self._path(HPA_KIND, manifest["metadata"]["name"]), _deadline())
        return answer

    def count(self) -> int | Failure:
        """Return the replicas of the object."""
        scale = self._scales.read(self._namespace, self._ref, _deadline())
        return Failure(scale.message) if isinstance(scale, ReadFailure) else scale.spec_replicas

    def wake(self, replicas: int) -> bool | Failure:
        """Set the replicas of the object if they are 0; return whether they were."""
        deadline = _deadline()
        scale = self._scales.read(self._namespace, self._ref, deadline)
        if isinstance(scale, ReadFailure):
            return Failure(scale.message)
        if scale.spec_replicas:
            return False
        outcome = self._scales.write(self._namespace, self._ref, scale, replicas, deadline)
        if isinstance(outcome, WriteFailure):
            return Failure(outcome.message)
        return isinstance(outcome, AcceptedWrite)

    def keep_awake(self, scaled_object: JsonObject) -> Failure | None:
        """Let KEDA count its cooldown from now, and not from the last activity that it saw."""
        body: JsonObject = {"status": {"lastActiveTime": rfc3339(clock.wall())}}
        return self._patch(scaled_object["metadata"]["name"], body, "/status")

    def pause(self, scaled_object: JsonObject, *, on: bool) -> Failure | None:
        """Pause a ScaledObject, or end its pause; KEDA then deletes or creates its autoscaler."""
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
        # A ScaledObject may omit the defaults.
        usual = ("apps/v1", "Deployment") if other["kind"] == KEDA_KIND else ("", "")
        group = (named.get("apiVersion") or usual[0]).rpartition("/")[0]
        ref = self._ref
        found = (group, named.get("kind") or usual[1], named["name"])
        return found == (ref.group, ref.kind, ref.name)

    def _list(self, kind: str) -> tuple[JsonObject, ...] | Failure:
        found: list[JsonObject] = []

        def add(items: list[JsonObject]) -> None:
            # Items of a list have neither kind nor apiVersion.
            whole = ({**item, "apiVersion": _VERSIONS[kind], "kind": kind} for item in items)
            found.extend(item for item in whole if self.controls(item))

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
    """Return a manifest to apply: the object without what the API server adds."""
    metadata = {key: value for key, value in other["metadata"].items() if key not in _OF_THE_SERVER}
    rest = {key: value for key, value in other.items() if key not in {"metadata", "status"}}
    return {"apiVersion": other["apiVersion"], "kind": other["kind"], "metadata": metadata, **rest}


def is_same(document: JsonObject, other: JsonObject) -> bool:
    """Return whether two readings are of one object without an edit in between."""
    same_uid = document["metadata"]["uid"] == other["metadata"]["uid"]
    return same_uid and as_manifest(document) == as_manifest(other)


def may_sleep(scaled_object: JsonObject) -> bool:
    """Return whether KEDA may scale a ScaledObject without activity below its HPA's minimum."""
    spec = scaled_object["spec"]
    return not spec.get("minReplicaCount") or spec.get("idleReplicaCount") is not None


def is_paused(scaled_object: JsonObject) -> bool:
    """Return whether KEDA ignores a ScaledObject, including by a value that is not a boolean."""
    value = _annotations(scaled_object).get(PAUSED)
    return value is not None and value.lower() not in {"false", "f", "0"}


def returns_by(other: JsonObject) -> Iterator[str]:
    """Yield who would restore a deleted object, or undo a change of it: Helm, Argo CD, Flux."""
    labels, annotations = _labels(other), _annotations(other)
    for name, key, of in _OWNERS:
        value = labels.get(key) or annotations.get(key)
        if value:
            yield f"{name} ({of} {printable(value, _LONGEST_OF_NAME)})"
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


# -- one target ------------------------------------------------------------------------------------


T = TypeVar("T")

_POLL_SECONDS = 0.3
_PATIENCE_SECONDS, _PATIENCE_PERIODS = 30.0, 2.0
"""The time limit of a step, in seconds: a reload, a watch and a sync take less."""
_MOST_OF_A_MANIFEST = 2**20
_LONGEST_NAME = 253
AGAIN = "run the same command again to continue, or with --back to return"


def as_autoscaler(target: Target) -> tuple[JsonObject, tuple[str, ...]]:
    """Return the HorizontalPodAutoscaler for a target, with its workload's name, and what it lacks.

    It lacks the target's own fields, as paths, and each metric that an adapter would have to serve,
    as a sentence.
    """
    parts: JsonObject = as_written(target)
    spec = {key: parts[key] for key in OF_AN_AUTOSCALER if key in parts}
    lost = [f"`{key}` is of this autoscaler only" for key in own_fields(target)]
    for metric, written in zip(target.spec.metrics, spec["metrics"], strict=True):
        written.pop("activation", None)
        source = written[SOURCES[metric.type]]
        source.pop("query", None)
        if not metric.of_resource:
            source["metric"].pop("query")
            name = f"{metric.type} metric {metric.name}"
            lost.append(f"{name}: a metrics adapter has to serve it by that name")
    named = {"name": target.spec.scale_target_ref.name, "namespace": target.namespace}
    head = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": named}
    return {**head, "spec": spec}, tuple(lost)


class ShadowVerdict(NamedTuple):
    """Whether a target in shadow has agreed with its autoscaler: None if unknown."""

    agrees: bool | None
    sentence: str
    differences: tuple[str, ...] = ()
    """The differences of the configurations, even without an effect on a count."""


def verdict_of(daemon: DaemonSource, target: str) -> ShadowVerdict:
    """Return the agreement of a target in shadow with its autoscaler, from the daemon."""
    try:
        told = daemon.agreement([target], clock.wall() - AGREEMENT_SECONDS).targets
    except CommandError as error:
        return ShadowVerdict(None, f"how far it agrees with what scales now is not known: {error}")
    (found,) = told
    sentence = printable(found.message, LONGEST_SENTENCE)
    differ = tuple(
        printable(field_text(difference), LONGEST_SENTENCE) for difference in found.differences
    )
    if found.verdict in {READY, EARLY}:
        return ShadowVerdict(agrees=True, sentence=sentence, differences=differ)
    if found.verdict == NOT_COMPARED:
        return ShadowVerdict(None, sentence, differ)
    sentence += f"; `autoscaler agreement {target}` has each"
    return ShadowVerdict(agrees=False, sentence=sentence, differences=differ)


@dataclass(frozen=True, slots=True)
class Other:
    """Other autoscalers of the object: a HorizontalPodAutoscaler, of a ScaledObject or by hand.

    A paused ScaledObject has no HPA.
    """

    autoscaler: JsonObject | None = None
    scaled_object: JsonObject | None = None

    @property
    def object(self) -> JsonObject | None:
        """The object that people created."""
        return self.scaled_object or self.autoscaler

    @property
    def is_there(self) -> bool:
        """Whether it scales, or will in a moment."""
        paused = self.scaled_object is not None and is_paused(self.scaled_object)
        return self.autoscaler is not None or (self.scaled_object is not None and not paused)

    def __str__(self) -> str:
        if self.autoscaler is not None:
            return words_of(self.autoscaler["metadata"])
        return "" if self.scaled_object is None else named(self.scaled_object)


def named(other: JsonObject) -> str:
    """Return an object's kind and name."""
    return f'{other["kind"]} "{printable(other["metadata"]["name"], _LONGEST_NAME)}"'


@dataclass(frozen=True, slots=True)
class Situation:
    """The state of a target; ``unknown`` is the reason if the daemon does not know it."""

    mode: Mode | None
    """The mode in the daemon's configuration."""
    state: TargetState | None
    unknown: str
    other: Other

    @property
    def word(self) -> str:
        """The word of its state; empty if it is unknown."""
        return "" if self.state is None else self.state.state

    @property
    def count(self) -> int | None:
        """The replicas that the daemon has found."""
        return None if self.state is None else self.state.current_replicas

    @property
    def is_left_alone(self) -> bool:
        """Whether the daemon sees that another autoscaler controls it."""
        return self.state is not None and self.state.controlled_by is not None

    @property
    def is_in_charge(self) -> bool:
        """Whether the daemon has decided on the target with the configuration in force."""
        if self.state is None or self.state.state == State.UNKNOWN:
            return False
        return self.mode is Mode.LIVE and not self.state.in_shadow


class Move:
    """One target that moves. Methods raise CommandError and ConfigError."""

    def __init__(
        self,
        target: Target,
        config: Path,
        cluster: ReplacedAutoscalers,
        daemon: DaemonSource,
        backup: Path,
    ) -> None:
        self.target = target
        self.key = wording.target_key(target)
        self.cluster = cluster
        self.daemon = daemon
        self.saved = backup / f"{target.key.replace('/', '.')}.json"
        """The manifest of the other autoscaler."""
        self.config = config
        self.patience = _PATIENCE_SECONDS + _PATIENCE_PERIODS * target.sync_period

    # -- looking -----------------------------------------------------------------------------------

    def look(self) -> Situation:
        """Return the state of the target."""
        return Situation(*self._at_daemon(), self.other())

    def other(self) -> Other:
        """Return the other autoscaler of the object. Refuses two: it is unknown which counts."""
        found = self.cluster.find()
        if isinstance(found, Failure):
            raise CommandError(f"{self.key}: {found.message}")
        autoscaler = next(iter(found.autoscalers), None)
        scaled_object = next(iter(found.scaled_objects), None)
        of = "" if autoscaler is None else scaled_object_of(autoscaler["metadata"])
        by_hand = autoscaler is not None and not of
        if by_hand and scaled_object is not None and is_paused(scaled_object):
            scaled_object = None
        several = [*found.autoscalers, *(found.scaled_objects if by_hand else ())]
        if len(found.autoscalers) > 1 or (by_hand and scaled_object is not None):
            names = " and ".join(map(named, several))
            raise CommandError(
                f"{self.key}: {names} scale it at once; delete those that should not, and begin "
                "again with the remaining one"
            )
        if of and (scaled_object is None or scaled_object["metadata"]["name"] != of):
            raise CommandError(
                f"{self.key}: {Other(autoscaler)} is there, and no {KEDA_KIND} of that name that "
                "names the workload; wait until KEDA has deleted it, or delete it by hand"
            )
        return Other(autoscaler, scaled_object)

    def _at_daemon(self) -> tuple[Mode | None, TargetState | None, str]:
        other = None
        try:
            detail = self.daemon.target(self.target.key)
            if detail is None and (shard := self.daemon.shard()) is not None:
                other = shard.other(self.target.key)
        except NotRunningError as error:
            start = "start it with `autoscaler run`, or name its --url"
            return None, None, f"{error.sentence}; {start}"
        except CommandError as error:
            return None, None, str(error)
        if detail is None:
            have = f"{self.daemon.name} has no such target: does it run with {self.config}?"
            return None, None, wording.has_target(*other) if other else have
        return Mode(detail.configuration.get("mode", Mode.LIVE)), detail.state, ""

    def until(self, what: Callable[[Situation], T | None], why: Callable[[Situation], str]) -> T:
        """Wait for a true result of ``what`` and return it; ``why`` explains a timeout."""
        end = clock.monotonic() + self.patience
        while True:
            standing = self.look()
            found = what(standing)
            if found is not None:
                return found
            if clock.monotonic() >= end:
                told = standing.unknown and f" ({standing.unknown})"
                raise CommandError(f"{self.key}: {why(standing)}{told}; {AGAIN}")
            time.sleep(_POLL_SECONDS)

    # -- the manifest ------------------------------------------------------------------------------

    def save(self, other: JsonObject) -> None:
        """Save the manifest of the other autoscaler, readable only by its owner."""
        content = json.dumps(as_manifest(other), indent=2).encode() + b"\n"
        try:
            write_below(self.saved.parent, [self.saved.name], content, force=True)
        except OSError as error:
            raise CommandError(
                f"{self.key}: {named(other)} cannot be saved in {self.saved}: {error.strerror}; "
                "name another folder with --backup"
            ) from None

    def manifest(self) -> JsonObject:
        """Return the object to create: the saved one, or the HPA of the target."""
        return self.saved_manifest() or as_autoscaler(self.target)[0]

    def least_awake(self) -> int:
        """Return the least count at which the created HPA acts."""
        least = self.manifest()["spec"].get("minReplicas")
        return max(1, least) if isinstance(least, int) else 1

    def saved_manifest(self) -> JsonObject | None:
        """Return the saved manifest, if any.  Refuses the manifest of another object."""
        try:
            content = read_bytes(self.saved, _MOST_OF_A_MANIFEST).decode()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise CommandError(f"{self.saved} cannot be read: {why}") from None
        value: Any = next((document.value for document in islice(documents(content), 1)), None)
        with suppress(*MALFORMED):
            manifest = as_manifest(value)
            here = manifest["metadata"].get("namespace", self.target.namespace)
            known = manifest["kind"] in {HPA_KIND, KEDA_KIND} and manifest["metadata"]["name"]
            if known and here == self.target.namespace and self.cluster.controls(manifest):
                return manifest
        raise CommandError(
            f"{self.saved} is not a manifest of an autoscaler of {self.key}: name the right folder "
            "with --backup, or take the file away to go back without it"
        )
