"""The rights that the daemon lacks: each is checked by a SelfSubjectAccessReview.

A SelfSubjectRulesReview would be one request, but is incomplete with webhooks or other authorizers
than RBAC.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from autoscaler import clock
from autoscaler.core.target import Target
from autoscaler.core.text import printable
from autoscaler.kubernetes.api import Api, JsonObject
from autoscaler.kubernetes.discovery import ScalableKinds, ScalableResource
from autoscaler.kubernetes.failures import Failure

TARGETS, LEASE = "base/clusterrole", "base/role"
"""The manifests of config/kubernetes that grant the rights to targets, and to the Lease."""

HPAS = "horizontalpodautoscalers"

ElectionLease = tuple[str, str]
"""Namespace and name of the Lease of a leader election."""

_LEASE_VERBS = frozenset({"create", "get", "update"})
"""Without these there is no leader, and nothing is written."""
_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_MOST_REVIEWS = 200
_MOST_NAMESPACES = 20
"""The most namespaces that are checked if a right is not granted cluster-wide."""
_MOST_NAMED = 5
_LONGEST_NAME = 253


@dataclass(frozen=True, slots=True)
class Right:
    """A verb on a resource in namespaces (None: cluster-wide), and what fails ``otherwise``."""

    verb: str
    group: str
    resource: str
    namespaces: tuple[str, ...] | None
    otherwise: str
    manifest: str = TARGETS
    name: str = ""


class MissingRight(NamedTuple):
    """A sentence about a missing right, its resource, and whether writes need it."""

    sentence: str
    resource: str
    prevents_writes: bool


class _NotReviewedError(Exception):
    """The API server does not say what is allowed."""


def rights_needed(
    targets: Sequence[Target],
    resources: Sequence[ScalableResource],
    lease: ElectionLease | None,
    *,
    events: bool,
) -> Iterator[Right]:
    """Yield the rights that a daemon needs for its targets; ``resources`` serve their kinds."""
    everywhere = _namespaces(targets)
    with_pods = _namespaces(target for target in targets if target.needs_pods)
    to_zero = _namespaces(filter(_goes_to_zero, targets))
    for resource in resources:
        group, plural = resource.group, resource.plural
        each = "each scale is read at every sync, and pauses by annotation are not seen"
        yield from _rights("list watch", group, plural, everywhere, each)
        scale = f"{plural}/scale"
        yield Right("get", group, scale, everywhere, "no scale can be read by itself")
        yield Right("update", group, scale, everywhere, "nothing can be scaled")
        zero = "the object does not say that a zero is the autoscaler's"
        yield Right("patch", group, scale, to_zero, zero)
    yield Right("list", "", "pods", with_pods, "metrics of pods cannot be used")
    yield Right("watch", "", "pods", with_pods, "pods are listed at every sync")
    with_costs = _namespaces(target for target in targets if target.deletion_cost is not None)
    if with_costs:
        no_effect = "scaleDown.podDeletionCost has no effect, and Kubernetes chooses the pods"
        yield Right("patch", "", "pods", with_costs, no_effect)
    unknown = "it is not known whether a HorizontalPodAutoscaler controls a target too"
    yield from _rights("list watch", "autoscaling", HPAS, everywhere, unknown)
    if events:
        untold = "no Events tell what happens to a workload"
        yield from _rights("create patch", "", "events", everywhere, untold)
    if any(resource.group not in {"", "apps"} for resource in resources):
        crd, unwatched = "customresourcedefinitions", "custom resources cannot be watched"
        yield Right("get", "apiextensions.k8s.io", crd, None, unwatched)
    if lease is not None:
        unled = "it cannot become the leader, and writes nothing"
        late = "a standby asks for the Lease once per retryPeriod and leads later"
        for verbs, otherwise in (("create get update", unled), ("list watch", late)):
            for right in _rights(verbs, "coordination.k8s.io", "leases", lease[:1], otherwise):
                # An object that is created has no name yet.
                name = "" if right.verb == "create" else lease[1]
                yield replace(right, manifest=LEASE, name=name)


def _namespaces(targets: Iterable[Target]) -> tuple[str, ...]:
    return tuple(sorted({target.namespace for target in targets}))


def _rights(
    verbs: str, group: str, resource: str, where: tuple[str, ...], otherwise: str
) -> Iterator[Right]:
    for verb in verbs.split():
        yield Right(verb, group, resource, where, otherwise)


def missing_rights(
    api: Api,
    targets: Sequence[Target],
    lease: ElectionLease | None,
    *,
    events: bool,
    deadline: float,
) -> list[MissingRight]:
    """Return the missing rights that are known by the ``deadline``, one for each kind."""
    resources = _resources(api, targets, deadline) if targets else []
    return lacking(api, rights_needed(targets, resources, lease, events=events), deadline)


def lacking(api: Api, rights: Iterable[Right], deadline: float) -> list[MissingRight]:
    """Return the missing ones of some rights, as far as known by the ``deadline``."""
    review = _Reviews(api, deadline)
    lacked: list[Right] = []
    try:
        for right in rights:
            if right.namespaces is None:
                lacked += [] if review.is_allowed(right, "") else [right]
            elif namespaces := review.lacking(right, right.namespaces):
                lacked.append(replace(right, namespaces=namespaces))
    except _NotReviewedError:
        pass
    beginning = f"the credentials of {api.origin} do not permit to "
    return [each._replace(sentence=beginning + each.sentence) for each in _sentences(lacked)]


def _resources(api: Api, targets: Sequence[Target], deadline: float) -> list[ScalableResource]:
    kinds = ScalableKinds(api)
    refs = [target.spec.scale_target_ref for target in targets]
    by_kind = {(ref.api_version, ref.kind): ref for ref in refs}
    resources = [kinds.find(ref, deadline) for ref in by_kind.values()]
    # Two versions of a kind are one resource.
    return list(
        {each.qualified: each for each in resources if not isinstance(each, Failure)}.values()
    )


class _Reviews:
    """Asks which requests are allowed, a bounded number of times."""

    def __init__(self, api: Api, deadline: float) -> None:
        self._api = api
        self._deadline = deadline
        self._left = _MOST_REVIEWS

    def lacking(self, right: Right, namespaces: Sequence[str]) -> tuple[str, ...]:
        """Return the namespaces without a right. Raises _NotReviewedError."""
        if len(namespaces) > 1 and self.is_allowed(right, ""):
            return ()
        reviewed = namespaces[:_MOST_NAMESPACES]
        return tuple(each for each in reviewed if not self.is_allowed(right, each))

    def is_allowed(self, right: Right, namespace: str) -> bool:
        """Return whether a right is granted in a namespace, or in all. Raises _NotReviewedError."""
        if not self._left or clock.monotonic() >= self._deadline:
            raise _NotReviewedError
        self._left -= 1
        resource, _, subresource = right.resource.partition("/")
        attributes = {
            "namespace": namespace,
            "verb": right.verb,
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "name": right.name,
        }
        body: JsonObject = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {key: text for key, text in attributes.items() if text}},
        }
        answer = self._api.once("POST", _PATH, self._deadline, body=body)
        match None if isinstance(answer, Failure) else answer.get("status"):
            case {"allowed": True}:
                return True
            # An authorizer that failed did not forbid it.
            case {"allowed": False, **rest} if not rest.get("evaluationError"):
                return False
        raise _NotReviewedError


def _sentences(lacked: Sequence[Right]) -> Iterator[MissingRight]:
    """Yield a sentence for all verbs on a resource that are missing in the same namespaces."""
    alike: dict[Right, list[str]] = defaultdict(list)
    for right in lacked:
        alike[replace(right, verb="", name="")].append(right.verb)
    for right, verbs in alike.items():
        plural, slash, subresource = right.resource.partition("/")
        group = f".{right.group}" if right.group else ""
        named = printable(f"{plural}{group}{slash}{subresource}", _LONGEST_NAME)
        what = f"{' and '.join(verbs)} {named}{_where(right.namespaces)}"
        sentence = f"{what}: {right.otherwise}; {_granted(right, verbs)}"
        is_scale = subresource == "scale" and "update" in verbs
        is_lease = plural == "leases" and not _LEASE_VERBS.isdisjoint(verbs)
        yield MissingRight(sentence, right.resource, is_scale or is_lease)


def _granted(right: Right, verbs: Sequence[str]) -> str:
    """Return the rule that grants a right; a role of its own is named."""
    if right.manifest not in {TARGETS, LEASE}:
        return f"{right.manifest} grants it"
    on = f'apiGroups: ["{right.group}"], resources: [{right.resource}]'
    rule = f"{{{on}, verbs: [{', '.join(verbs)}]}}"
    kind = "ClusterRole" if right.namespaces is None else "ClusterRole or Role"
    return f"a {kind} with the rule {rule} grants it"


def _where(namespaces: Sequence[str] | None) -> str:
    if not namespaces:
        return ""
    first = ", ".join(namespaces[:_MOST_NAMED])
    more = len(namespaces) - _MOST_NAMED
    rest = f" and {more} more" if more > 0 else ""
    return f" in namespace{'s' if len(namespaces) > 1 else ''} {first}{rest}"


def _goes_to_zero(target: Target) -> bool:
    schedules = target.extensions.schedules
    minima = [target.spec.min_replicas, *(schedule.min_replicas for schedule in schedules)]
    return target.extensions.idle is not None or 0 in minima
