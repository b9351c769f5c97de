"""The cluster as watches show it: scales, pods and other autoscalers without a request for each."""

import threading
from collections import defaultdict
from collections.abc import Sequence
from functools import partial

from autoscaler import clock
from autoscaler.adapters.cluster.annotations import AnnotatedScales, Annotations
from autoscaler.adapters.cluster.api import Api
from autoscaler.adapters.cluster.autoscalers import AutoscalerCache
from autoscaler.adapters.cluster.discovery import ScalableKinds
from autoscaler.adapters.cluster.operator_notes import OperatorNotes
from autoscaler.adapters.cluster.pod_cache import PodCache, is_indexable
from autoscaler.adapters.cluster.pods import PodReader, Pods
from autoscaler.adapters.cluster.reflector import Reflector, State
from autoscaler.adapters.cluster.scale_cache import Key, ScaleCache
from autoscaler.adapters.cluster.scales import Scales
from autoscaler.adapters.cluster.watch_requests import WatchTimings
from autoscaler.adapters.cluster.watch_scopes import Changed, WatchScopes
from autoscaler.core.observation import Pod, Scale, Unavailable, Unchecked
from autoscaler.core.spec import ScaleTargetRef, needs_pods
from autoscaler.core.target import Target
from autoscaler.core.writes import Superseded, WriteOutcome, Written
from autoscaler.transport.observer import UNOBSERVED, Observer

_CLOSE_SECONDS = 1.0
_MOST_POD_NAMESPACES = 8
"""Above this one watch covers the pods of all namespaces, and drops those of others."""

_Kind = tuple[str, str]
"""apiVersion and kind, as a target's reference has them."""

_AnyScopes = WatchScopes[ScaleCache] | WatchScopes[PodCache] | WatchScopes[AutoscalerCache]


class WatchedCluster:
    """Scales and pods of the targets, and other autoscalers of them, from watches where possible.

    The methods ``cached_...`` never wait.  The ``observer`` is called, on any thread, when
    something cannot be watched and is read directly instead (False and a sentence), and when it can
    be watched again.
    """

    def __init__(
        self,
        api: Api,
        scales: Scales,
        pods: Pods,
        targets: Sequence[Target],
        *,
        observer: Observer = UNOBSERVED,
        timings: WatchTimings | None = None,
    ) -> None:
        self._api = api
        self._scales = scales
        self._pods = pods
        self._targets = tuple(targets)
        self._notes = OperatorNotes(observer.watch_changed)
        self._timings = timings or WatchTimings()
        self._kinds = ScalableKinds(api)
        self._annotated_scales = AnnotatedScales(scales, Annotations(api, self._kinds))
        self._reader = PodReader()
        self._lock = threading.RLock()
        self._changed = threading.Condition()
        self._closed = False
        self._wanted: dict[_Kind, frozenset[Key]] = {}
        self._scale_watches: dict[_Kind, WatchScopes[ScaleCache]] = {}
        self._autoscaler_watches = WatchScopes(self._autoscaler_watch, 1, self._notes, self._notify)
        self._asked: dict[str, frozenset[str]] = {}
        """By namespace, the selectors that were asked for and not in the cache."""
        self._pod_watches = WatchScopes(
            self._pod_watch, _MOST_POD_NAMESPACES, self._notes, self._notify
        )

    # -- life ------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin the watches, each on a daemon thread."""
        self.set_targets(self._targets)

    def set_targets(self, targets: Sequence[Target]) -> None:
        """Watch what these targets need, and stop watching what only earlier ones needed."""
        wanted: dict[_Kind, set[Key]] = defaultdict(set)
        for target in targets:
            ref = target.spec.scale_target_ref
            wanted[ref.api_version, ref.kind].add((target.namespace, ref.name))
        with self._lock:
            if self._closed:
                return
            self._targets = tuple(targets)
            self._autoscaler_watches.need({target.namespace for target in targets})
            old, self._wanted = (
                self._wanted,
                {kind: frozenset(keys) for kind, keys in wanted.items()},
            )
            for kind in self._scale_watches.keys() - wanted.keys():
                self._scale_watches.pop(kind).end()
            for kind, keys in self._wanted.items():
                self._watch_scales(kind, more=bool(keys - old.get(kind, frozenset())))
            self._asked = {}
            self._pod_watches.need(self._pod_namespaces())

    def wait_synced(self, deadline: float) -> bool:
        """Wait until the caches have all that can be watched; False if the deadline comes first."""
        with self._changed:
            return self._changed.wait_for(
                lambda: (
                    self._closed
                    or (
                        self._scales_settled()
                        and self._pod_watches.settled
                        and self._autoscaler_watches.settled
                    )
                ),
                timeout=max(0.0, deadline - clock.monotonic()),
            )

    def close(self) -> None:
        """End the watches, within about a second; everything must be read directly from now on."""
        with self._lock:
            self._closed = True
            scopes: list[_AnyScopes] = [
                *self._scale_watches.values(),
                self._pod_watches,
                self._autoscaler_watches,
            ]
        self._notify()
        deadline = clock.monotonic() + _CLOSE_SECONDS
        for watches in scopes:
            watches.end()
        for watches in scopes:
            watches.join(deadline)

    # -- scales ----------------------------------------------------------------------------

    def cached_scale(self, namespace: str, ref: ScaleTargetRef) -> Scale | Unavailable | None:
        """Return the scale as the watch shows it; None where it must be read directly.

        Unavailable says that the object does not exist, that the watch has been broken for so long
        that its copy cannot be trusted, or that the other autoscalers are not known yet.
        """
        return self._autoscalers_missing(namespace) or self._scale(namespace, ref)

    def _autoscalers_missing(self, namespace: str) -> Unavailable | None:
        """Return why nothing can be decided before the other autoscalers were listed once."""
        watch = self._autoscaler_watches.find(namespace)
        if self._closed or watch is None or watch.state is not State.STARTING:
            return None
        confirmed_at = watch.confirmed_at
        if confirmed_at is None and watch.stale_reason is not None:
            return watch.stale_reason
        why = "" if watch.reason is None else f": {watch.reason}"
        if confirmed_at is not None:
            why += (
                "; an API server that has just started may refuse it for a moment, so unless it "
                f"is listed nothing is decided here before {confirmed_at}"
            )
        return Unavailable(f"the list of {watch.cache.name} is not there yet{why}")

    def _scale(self, namespace: str, ref: ScaleTargetRef) -> Scale | Unavailable | None:
        watches = self._scale_watches.get((ref.api_version, ref.kind))
        watch = watches.find(namespace) if watches is not None else None
        if watch is None or watch.state is not State.SYNCED or self._closed:
            return None
        return watch.stale_reason or watch.cache.cached(namespace, ref.name)

    def cached_controller(self, namespace: str, ref: ScaleTargetRef) -> str | Unchecked | None:
        """Return the name of a HorizontalPodAutoscaler of the object; None without one.

        While the watch of them is broken, those that existed last count as existing; while it is
        refused, or its first list is not complete, the answer is Unchecked.  When a namespace is
        not needed any more, its autoscalers are forgotten with its watch.
        """
        watches = self._autoscaler_watches
        watch = watches.find(namespace)
        if watch is None or watch.state is State.SYNCED:
            return None if watch is None else watch.cache.controller(namespace, ref)
        why = watch.reason or f"the list of {watch.cache.name} is not there yet"
        listed = [watch, *watches.covering(namespace)]
        last = next((one.cache for one in listed if one.cache.listed), None)
        known = None if last is None else last.controller(namespace, ref) or ""
        return Unchecked(why, known)

    def read(self, namespace: str, ref: ScaleTargetRef, deadline: float) -> Scale | Unavailable:
        """Read the scale from the API server.

        With its annotations while the watch has not shown them yet; not where the kind cannot be
        watched.
        """
        watches = self._scale_watches.get((ref.api_version, ref.kind))
        watch = watches.find(namespace) if watches is not None else None
        if watch is None or watch.state is State.REFUSED or self._closed:
            return self._scales.read(namespace, ref, deadline)
        return self._annotated_scales.read(namespace, ref, deadline)

    def write(
        self, namespace: str, ref: ScaleTargetRef, scale: Scale, replicas: int, deadline: float
    ) -> WriteOutcome:
        """Write as `Scales.write` does, and add the server's answer to the cache."""
        outcome = self._scales.write(namespace, ref, scale, replicas, deadline)
        watches = self._scale_watches.get((ref.api_version, ref.kind))
        if watches is not None and isinstance(outcome, Written | Superseded):
            for watch in watches.covering(namespace):
                watch.cache.put(namespace, ref.name, outcome.scale)
        return outcome

    # -- pods ------------------------------------------------------------------------------

    def cached_pods(self, namespace: str, selector: str) -> tuple[Pod, ...] | None:
        """Return the pods as the watch shows them, by name; None where they must be listed.

        A namespace or a selector that is asked for the first time is watched from then on.
        None as well when the watch has been broken for some seconds: with fresh metrics, pods of an
        old list that do not exist any more would count as missing.
        """
        if self._closed:
            return None
        watch = self._pod_watches.find(namespace)
        if watch is not None and watch.state is State.SYNCED:
            if watch.is_behind(self._timings.pods_trusted):
                return None
            pods = watch.cache.pods(namespace, selector)
            if pods is not None:
                return pods
        if watch is not None and watch.cache.expects(namespace, selector):
            return None
        if selector not in self._asked.get(namespace, ()) and is_indexable(selector):
            self._ask(namespace, selector)
        return None

    def pods(self, namespace: str, selector: str, deadline: float) -> tuple[Pod, ...] | Unavailable:
        """List the pods at the API server."""
        return self._pods.pods(namespace, selector, deadline)

    # -- what is watched -------------------------------------------------------------------

    def _watch_scales(self, kind: _Kind, *, more: bool) -> None:
        """Watch one kind; ``more`` says that there are objects that were not wanted before."""
        watches = self._scale_watches.get(kind)
        if watches is None:
            create = partial(self._scale_watch, kind)
            watches = WatchScopes(create, 1, self._notes, self._notify)
            self._scale_watches[kind] = watches
        elif more:
            for watch in watches.watches():
                watch.relist()
        watches.need({namespace for namespace, _ in self._wanted[kind]})

    def _scale_watch(
        self, kind: _Kind, namespace: str, changed: Changed[ScaleCache]
    ) -> Reflector[ScaleCache]:
        cache = ScaleCache(
            self._api,
            self._kinds,
            ScaleTargetRef(*kind, name=""),
            namespace,
            lambda: self._wanted.get(kind, frozenset()),
        )
        return Reflector(self._api, cache, self._timings, self._notes, changed)

    def _pod_watch(self, namespace: str, changed: Changed[PodCache]) -> Reflector[PodCache]:
        cache = PodCache(namespace, self._selectors, self._await_scales, self._reader)
        return Reflector(self._api, cache, self._timings, self._notes, changed)

    def _autoscaler_watch(
        self, namespace: str, changed: Changed[AutoscalerCache]
    ) -> Reflector[AutoscalerCache]:
        return Reflector(
            self._api,
            AutoscalerCache(namespace),
            self._timings,
            self._notes,
            changed,
            first_refusal_confirmed_after=self._timings.first_refusal_confirmed_after,
        )

    def _ask(self, namespace: str, selector: str) -> None:
        with self._lock:
            if self._closed:
                return
            self._asked[namespace] = self._asked.get(namespace, frozenset()) | {selector}
            self._pod_watches.need(self._pod_namespaces())
            watches = self._pod_watches.covering(namespace)
        for watch in watches:
            watch.relist()

    def _pod_namespaces(self) -> set[str]:
        needing = {target.namespace for target in self._targets if needs_pods(target.spec)}
        return needing | self._asked.keys()

    def _selectors(self) -> dict[str, frozenset[str]]:
        """Return the selectors that were asked for, and those of the scales in the caches."""
        with self._lock:
            known = {namespace: set(selectors) for namespace, selectors in self._asked.items()}
            targets = self._targets
        for target in targets:
            if needs_pods(target.spec):
                selectors = known.setdefault(target.namespace, set())
                scale = self._scale(target.namespace, target.spec.scale_target_ref)
                if isinstance(scale, Scale):
                    selectors.add(scale.selector)
        return {namespace: frozenset(selectors) for namespace, selectors in known.items()}

    # -- changes ---------------------------------------------------------------------------

    def _scales_settled(self) -> bool:
        return all(watches.settled for watches in list(self._scale_watches.values()))

    def _await_scales(self, deadline: float) -> None:
        """Wait for the scales, whose selectors say which pods are wanted."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or self._scales_settled(),
                timeout=max(0.0, deadline - clock.monotonic()),
            )

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()
