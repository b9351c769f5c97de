"""A copy of the pods that known selectors match."""

import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import cast

from autoscaler.adapters.cluster.objects import MALFORMED, JsonObject, metadata_of, path_of
from autoscaler.adapters.cluster.pods import PodJson, PodReader
from autoscaler.adapters.cluster.watch_scopes import ALL, EACH_NAMESPACE
from autoscaler.core.observation import Pod
from autoscaler.core.selectors import LabelSelector, Operator, parse

Selectors = Mapping[str, frozenset[str]]
"""Selectors in string form, by namespace."""

_Members = dict[str, Pod | None]
"""Pods by name; None for one that cannot be read."""

_Entry = tuple[str, LabelSelector]
_Pair = tuple[str, str]

_LABEL_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")


class SelectorIndex:
    """Finds which of many selectors, in string form, match a pod, without trying all of them.

    Each is stored under one of the labels that it requires: the one that the fewest others require.
    So selectors such as `app=web,env=prod` are each tried only on pods of their own app.  Selectors
    that cannot be read, and empty ones, are left out.
    """

    def __init__(self, selectors: Iterable[str]) -> None:
        entries = list(_readable(selectors))
        self._by_pair: dict[_Pair, list[_Entry]] = defaultdict(list)
        self._by_key: dict[str, list[_Entry]] = defaultdict(list)
        self._others: list[_Entry] = []
        # Mostly a pod matches one selector, and thousands of pods the same one.
        self._shared: dict[tuple[str, ...], tuple[str, ...]] = {}
        required = Counter(pair for _, selector in entries for pair in selector.match_labels)
        for entry in entries:
            self._add(entry, required)
        self.selectors = frozenset(text for text, _ in entries)
        """The selectors that are known."""

    def matching(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return the selectors that match these labels, each once."""
        found = [text for text, selector in self._candidates(labels) if selector.matches(labels)]
        matching = tuple(found)
        return self._shared.setdefault(matching, matching)

    def _candidates(self, labels: Mapping[str, str]) -> Iterator[_Entry]:
        for pair in labels.items():
            yield from self._by_pair.get(pair, ())
        if self._by_key:
            for key in labels:
                yield from self._by_key.get(key, ())
        yield from self._others

    def _add(self, entry: _Entry, required: Counter[_Pair]) -> None:
        selector = entry[1]
        if selector.match_labels:
            rarest = min(selector.match_labels, key=lambda pair: required[pair])
            self._by_pair[rarest].append(entry)
            return
        for requirement in selector.match_expressions:
            if requirement.operator is Operator.IN:
                for value in set(requirement.values):
                    self._by_pair[requirement.key, value].append(entry)
                return
        for requirement in selector.match_expressions:
            if requirement.operator is Operator.EXISTS:
                self._by_key[requirement.key].append(entry)
                return
        self._others.append(entry)


def is_indexable(selector: str) -> bool:
    """Return whether a selector can be read and is not empty.

    The API server has operators that `core.selectors` has not, such as `size>3`.
    """
    try:
        parsed = parse(selector)
    except ValueError:
        return False
    keys = [key for key, _ in parsed.match_labels]
    keys += [requirement.key for requirement in parsed.match_expressions]
    return not parsed.empty and all(_LABEL_KEY.fullmatch(key) for key in keys)


def _readable(selectors: Iterable[str]) -> Iterator[_Entry]:
    for text in dict.fromkeys(selectors):
        if is_indexable(text):
            yield text, parse(text)


@dataclass(slots=True)
class _Namespace:
    """The pods of one namespace, by the selectors that match them."""

    index: SelectorIndex
    members: dict[str, _Members]
    matched: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By pod, the selectors that match it."""
    tuples: dict[str, tuple[Pod, ...] | None] = field(default_factory=dict)
    """By selector, the pods that were returned since they last changed."""

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


class PodCache:
    """Fits `watch_requests.Cache` for the pods of one namespace, or of ALL.

    Pods that match none of the selectors, which ``selectors`` returns when a list begins, are
    dropped as they arrive; of the others only the core's Pod is kept.  ``ready`` may wait, until
    a deadline, for the selectors to be known.
    """

    def __init__(
        self,
        namespace: str,
        selectors: Callable[[], Selectors],
        ready: Callable[[float], None],
        reader: PodReader,
    ) -> None:
        every = namespace == ALL
        self.name = "pods" if every else f'pods in namespace "{namespace}"'
        self.instead = EACH_NAMESPACE if every else "they are listed for one target after the other"
        self._namespace = namespace
        self._selectors = selectors
        self._ready = ready
        self._reader = reader
        self._lock = threading.Lock()
        self._namespaces: dict[str, _Namespace] = {}
        self._listing: dict[str, _Namespace] = {}

    def pods(self, namespace: str, selector: str) -> tuple[Pod, ...] | None:
        """Return the pods that match, by name; None where they must be listed directly."""
        with self._lock:
            found = self._namespaces.get(namespace)
            if found is None or selector not in found.members:
                return None
            return found.pods(selector)

    def expects(self, namespace: str, selector: str) -> bool:
        """Return whether the current list will add the pods that match."""
        listing = self._listing.get(namespace)
        return listing is not None and selector in listing.members

    def path(self, deadline: float) -> str:
        """Return the path of the pods."""
        self._ready(deadline)
        return path_of("v1", "pods", self._namespace)

    def begin(self) -> None:
        """Begin a list of the pods that are wanted now."""
        listing = {}
        for namespace, selectors in self._selectors().items():
            if self._namespace in {ALL, namespace}:
                index = SelectorIndex(selectors)
                members: dict[str, _Members] = {selector: {} for selector in index.selectors}
                listing[namespace] = _Namespace(index, members)
        self._listing = listing

    def add(self, items: list[JsonObject]) -> None:
        """Add a page.  Raises one of MALFORMED for what has no name."""
        for obj in items:
            self._put(self._listing, obj, "ADDED")

    def commit(self, version: str) -> None:  # noqa: ARG002 - no event is older than the list
        """Use the list from now on."""
        with self._lock:
            self._namespaces, self._listing = self._listing, {}

    def apply(self, kind: str, obj: JsonObject, version: str) -> None:  # noqa: ARG002 - in order
        """Apply an event.  Raises one of MALFORMED for what has no name."""
        if kind != "BOOKMARK":
            self._put(self._namespaces, obj, kind)

    def clear(self) -> None:
        """Forget all pods."""
        with self._lock:
            self._namespaces, self._listing = {}, {}

    def _put(self, into: dict[str, _Namespace], obj: JsonObject, kind: str) -> None:
        metadata = metadata_of(obj)
        name = metadata["name"]
        namespace = into.get(metadata["namespace"])
        if namespace is None:
            return
        matching: tuple[str, ...] = ()
        pod: Pod | None = None
        if kind != "DELETED":
            matching = namespace.index.matching(metadata.get("labels") or {})
            pod = self._read(obj) if matching else None
        if matching or name in namespace.matched:
            with self._lock:
                namespace.put(intern(name), matching, pod)

    def _read(self, obj: JsonObject) -> Pod | None:
        try:
            return self._reader.read(cast("PodJson", obj))
        except MALFORMED:
            return None  # the direct list reports what is wrong with it
