"""Pods: the fields that a decision uses, lists of pods, and a cache of the wanted ones."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache, partial
from sys import intern

from autoscaler import quantities
from autoscaler.core.numbers import INT32_MAX, INT32_MIN
from autoscaler.core.observation import ContainerRequests, Pod, PodRequests, ReadFailure
from autoscaler.core.selectors import parse
from autoscaler.core.spec import ConditionStatus, LabelSelector, Operator
from autoscaler.kubernetes.api import MALFORMED, Api, JsonObject, path_of, read_list
from autoscaler.kubernetes.failures import Failure, malformed, typed
from autoscaler.kubernetes.watch_requests import ALL, OBJECT_BYTES, Cache

_Quantities = tuple[tuple[str, str], ...]
_ContainerKeys = tuple[tuple[str, bool, _Quantities], ...]

Selectors = Mapping[str, frozenset[str]]
"""Selectors in string form, by namespace."""

_Members = dict[str, Pod | None]
"""Pods by name; None for one that is malformed."""

_Entry = tuple[str, LabelSelector]
_Pair = tuple[str, str]

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""The annotation that the ReplicaSet controller reads (KEP-2255)."""
OUR_DELETION_COST = "autoscaler/pod-deletion-cost"
"""The annotation with the cost that we have set, which distinguishes it from other clients'."""

_FINISHED = frozenset({"Succeeded", "Failed"})
"""Phases that are final. Such pods never count (semantics 6.19)."""

_MOST_TEMPLATES, _LONGEST_TEMPLATE = 2_000, 4_096
_CONTAINER_BYTES, _RESOURCE_BYTES = 400, 400
"""The memory of a container, or of a resource that it requests, with the longest name."""
_LONGEST_NAME = 253
"""The longest name of a pod, a container or a resource in the API."""
_LABEL_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_COST = re.compile(r"0|-?[1-9][0-9]{0,9}")
_PAGE = 500
"""The page size of the API's own clients."""
_GONE = 410
_LONGEST = 200


def read_pod(pod: JsonObject) -> Pod:
    """Read one pod; equal requests share one object; raises one of MALFORMED.

    A name that no API server accepts makes the pod malformed, so the memory of a pod is bounded.
    """
    metadata, status, spec = pod["metadata"], pod.get("status") or {}, pod.get("spec") or {}
    conditions = status.get("conditions") or ()
    ready = next((each for each in conditions if each["type"] == "Ready"), None)
    start_time = status.get("startTime")
    transition = ready.get("lastTransitionTime") if ready is not None else None
    containers, init = spec.get("containers"), spec.get("initContainers")
    annotations = metadata.get("annotations") or {}
    keys = _container_keys(containers), _container_keys(init), _quantities(spec)
    is_usual = len(repr(keys)) <= _LONGEST_TEMPLATE
    return Pod(
        name=_name(metadata["name"]),
        phase=_name(status.get("phase", "")),
        ready=ConditionStatus(ready["status"]) if ready is not None else None,
        ready_transition=unix_seconds(transition) if transition else None,
        start_time=unix_seconds(start_time) if start_time else None,
        deleted="deletionTimestamp" in metadata,
        # The usual requests are one object for all pods that have them.
        requests=(_shared_requests if is_usual else _new_requests)(*keys),
        deletion_cost=_cost(annotations.get(DELETION_COST)),
        our_deletion_cost=_cost(annotations.get(OUR_DELETION_COST)),
    )


def _cost(text: object) -> int | None:
    """Return a deletion cost as the controller reads it: 0 unless it is an int32."""
    if text is None:
        return None
    number = int(text) if isinstance(text, str) and _COST.fullmatch(text) else 0
    return number if INT32_MIN <= number <= INT32_MAX else 0


def _new_requests(
    containers: _ContainerKeys, init: _ContainerKeys, pod_level: _Quantities
) -> PodRequests:
    return typed(PodRequests(_containers(containers), _containers(init), _nano(pod_level)))


_shared_requests = lru_cache(_MOST_TEMPLATES)(_new_requests)


def _container_keys(containers: list[JsonObject] | None) -> _ContainerKeys:
    every = containers or ()
    return tuple(
        [
            (
                _name(container["name"]),
                container.get("restartPolicy") == "Always",
                _quantities(container),
            )
            for container in every
        ]
    )


def _quantities(of: JsonObject) -> _Quantities:
    resources = of.get("resources")
    if not resources:
        return ()
    requests = resources.get("requests") or {}
    return tuple([(_name(name), amount) for name, amount in requests.items()])


def _name(text: object) -> str:
    if not isinstance(text, str) or len(text) > _LONGEST_NAME:
        raise ValueError("a name is not a string, or too long")
    return text


def _containers(keys: _ContainerKeys) -> tuple[ContainerRequests, ...]:
    return tuple(
        ContainerRequests(name, _nano(requests), restartable)
        for name, restartable, requests in keys
    )


def _nano(requests: _Quantities) -> Mapping[str, int]:
    return {name: quantities.parse_quantity(str(amount)) for name, amount in requests}


def unix_seconds(text: str) -> float:
    """Read RFC 3339, as `metav1.Time` and `MicroTime` are sent.  Raises ValueError."""
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError(f"{text!r} is not a time: it has no offset; right is 2006-01-02T15:04:05Z")
    return instant.timestamp()


class SelectorIndex:
    """Finds which of many selectors, in string form, match a pod, without trying all of them.

    Each is stored under the label that the fewest others require too: `app=web,env=prod` is tried
    only on pods of its app, and `app in (a, b)` on pods of both apps. A selector that requires no
    value is tried on all pods. Unreadable and empty selectors are omitted.
    """

    def __init__(self, selectors: Iterable[str]) -> None:
        known = filter(is_indexable, dict.fromkeys(selectors))
        entries = [(text, parse(text)) for text in known]
        self._by_pair: dict[_Pair | None, list[_Entry]] = defaultdict(list)
        # Usually a pod matches one selector, and thousands of pods the same one.
        self._shared: dict[tuple[str, ...], tuple[str, ...]] = {}
        required = Counter(pair for _, selector in entries for pair in selector.match_labels)
        for text, selector in entries:
            for pair in _required_pairs(selector, required):
                self._by_pair[pair].append((text, selector))
        self.selectors = frozenset(text for text, _ in entries)
        """The selectors that are known."""

    def matching(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return the selectors that match these labels, each once."""
        matching = tuple(
            [text for text, selector in self._candidates(labels) if selector.matches(labels)]
        )
        return self._shared.setdefault(matching, matching)

    def _candidates(self, labels: Mapping[str, str]) -> Iterator[_Entry]:
        for pair in (*labels.items(), None):
            yield from self._by_pair.get(pair, ())


def _required_pairs(selector: LabelSelector, required: Counter[_Pair]) -> set[_Pair | None]:
    """Return labels; each matching pod has at least one of them. None: any pod may match."""
    if selector.match_labels:
        return {min(selector.match_labels, key=required.__getitem__)}
    for expression in selector.match_expressions:
        if expression.operator is Operator.IN:
            return {(expression.key, value) for value in expression.values}
    return {None}


def is_indexable(selector: str) -> bool:
    """Return whether a selector is supported, unlike `size>3`, and not empty."""
    try:
        parsed = parse(selector)
    except ValueError:
        return False
    keys = [key for key, _ in parsed.match_labels]
    keys += [requirement.key for requirement in parsed.match_expressions]
    return not parsed.empty and all(_LABEL_KEY.fullmatch(key) for key in keys)


def _weight(name: str, pod: Pod | None) -> int:
    if pod is None:
        return OBJECT_BYTES + len(name)
    of, text = pod.requests, len(name) + len(pod.phase)
    every = [each.requests for each in (*of.containers, *of.init_containers)]
    resources = sum(map(len, every), len(of.pod_level))
    return OBJECT_BYTES + text + _CONTAINER_BYTES * len(every) + _RESOURCE_BYTES * resources


@dataclass(slots=True)
class _NamespacePods:
    """The pods of one namespace, by the selectors that match them."""

    index: SelectorIndex
    members: dict[str, _Members]
    matched: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By pod: the selectors that match it."""
    tuples: dict[str, tuple[Pod, ...] | None] = field(default_factory=dict)
    """By selector: the pods that were returned since the last change."""

    def weight(self, name: str) -> int:
        """Return about how many bytes of a pod are kept."""
        matched = self.matched.get(name)
        return _weight(name, self.members[matched[0]].get(name)) if matched else 0

    def put(self, name: str, matching: tuple[str, ...], pod: Pod | None) -> None:
        for selector in self.matched.get(name, ()):
            if selector not in matching:
                del self.members[selector][name]
                self.tuples.pop(selector, None)
        for selector in matching:
            members = self.members[selector]
            if pod is None or members.get(name) != pod:
                members[name] = pod
                self.tuples.pop(selector, None)
        if matching:
            self.matched[name] = matching
        else:
            self.matched.pop(name, None)

    def pods(self, selector: str) -> tuple[Pod, ...] | None:
        if selector not in self.tuples:
            members = self.members[selector]
            pods = [pod for _, pod in sorted(members.items()) if pod is not None]
            self.tuples[selector] = tuple(pods) if len(pods) == len(members) else None
        return self.tuples[selector]


class PodCache(Cache):
    """The pods of a namespace, or ALL, that ``selectors`` match; ``ready`` may wait for these."""

    def __init__(
        self,
        namespace: str,
        selectors: Callable[[], Selectors],
        ready: Callable[[float], None],
    ) -> None:
        instead = "they are listed for one target after the other"
        super().__init__("pods", namespace, instead, path_of("v1", "pods", namespace))
        self._selectors = selectors
        self._ready = ready
        self._namespaces: dict[str, _NamespacePods] = {}
        self._listing: dict[str, _NamespacePods] = {}

    def pods(self, namespace: str, selector: str) -> tuple[Pod, ...] | None:
        """Return the pods that match, by name; None if they must be listed directly."""
        with self._lock:
            pods = self._namespaces.get(namespace)
            if pods is None or selector not in pods.members:
                return None
            return pods.pods(selector)

    def expects(self, namespace: str, selector: str) -> bool:
        """Return whether the current list will add the pods that match."""
        listing = self._listing.get(namespace)
        return listing is not None and selector in listing.members

    def path(self, deadline: float) -> str:
        """Return the path, once the wanted selectors are known."""
        self._ready(deadline)
        return self._path

    def begin(self) -> None:
        """Begin a list of the pods that are wanted now."""
        listing = {}
        for namespace, selectors in self._selectors().items():
            if self.namespace in {ALL, namespace}:
                index = SelectorIndex(selectors)
                members: dict[str, _Members] = {selector: {} for selector in index.selectors}
                listing[namespace] = _NamespacePods(index, members)
        self._drop_listed()
        self._listing = listing

    def add(self, items: list[JsonObject]) -> None:
        """Add a page. Raises one of MALFORMED for a pod without a name."""
        for obj in items:
            self._put(self._listing, obj, "ADDED")

    def commit(self, version: str) -> None:  # noqa: ARG002 - no event is older than the list
        """Use the list from now on."""
        with self._lock:
            self._use_listed()
            self._namespaces, self._listing = self._listing, {}

    def apply(self, kind: str, obj: JsonObject, version: str) -> None:  # noqa: ARG002 - in order
        """Apply an event. Raises one of MALFORMED for a pod without a name."""
        if kind != "BOOKMARK":
            self._put(self._namespaces, obj, kind)

    def clear(self) -> None:
        """Forget all pods."""
        with self._lock:
            self._drop_listed()
            self._use_listed()
            self._namespaces, self._listing = {}, {}

    def _put(self, into: dict[str, _NamespacePods], obj: JsonObject, kind: str) -> None:
        metadata = obj["metadata"]
        name = metadata["name"]
        namespace = into.get(metadata["namespace"])
        if namespace is None:
            return
        matching: tuple[str, ...] = ()
        if kind != "DELETED":
            matching = namespace.index.matching(metadata.get("labels") or {})
        pod: Pod | None = None
        if matching:
            with suppress(*MALFORMED):  # The direct list reports what is wrong with it.
                pod = read_pod(obj)
        if pod is not None and pod.phase in _FINISHED:
            matching = ()
        if matching or name in namespace.matched:
            after = _weight(name, pod) if matching else 0
            self._count(namespace.weight(name), after, listed=into is self._listing)
            with self._lock:
                namespace.put(intern(name), matching, pod)


def list_pods(
    api: Api, namespace: str, selector: str, deadline: float, *, page_size: int = _PAGE
) -> tuple[Pod, ...] | ReadFailure:
    """List the pods that match, all of one resourceVersion."""
    pods = _list(api, namespace, selector, deadline, page_size)
    if isinstance(pods, Failure) and pods.status == _GONE:
        # A later page came too late for its resourceVersion; a list in one page cannot.
        pods = _list(api, namespace, selector, deadline, 0)
    return ReadFailure(pods.message) if isinstance(pods, Failure) else tuple(pods)


def _list(
    api: Api, namespace: str, selector: str, deadline: float, limit: int
) -> list[Pod] | Failure:
    def add(items: list[JsonObject]) -> None:
        pods.extend(pod for pod in map(read_pod, items) if pod.phase not in _FINISHED)

    pods: list[Pod] = []
    get = partial(api.get, path_of("v1", "pods", namespace), deadline)
    try:
        version = read_list(get, add, {"labelSelector": selector}, limit)
    except MALFORMED as error:
        what = f"a list of pods that cannot be read: {error}"
        return malformed(api.server, api.redactor.line(what, _LONGEST))
    return version if isinstance(version, Failure) else pods
