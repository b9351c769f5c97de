"""The cluster as watches show it, without a request per object; and a cluster without a cache."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from autoscaler import clock
from autoscaler.core.observation import Hpa, Pod, ReadFailure, Scale, UncheckedControl
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.target import Target
from autoscaler.core.text import duration
from autoscaler.core.writes import (
    AcceptedWrite,
    SkippedWrite,
    SkippedWriteReason,
    UnsetCosts,
    WriteConflict,
    WriteOutcome,
)
from autoscaler.kubernetes.api import Api
from autoscaler.kubernetes.autoscalers import AutoscalerCache, Controlled, ListedAutoscalers
from autoscaler.kubernetes.deletion_costs import DeletionCosts
from autoscaler.kubernetes.election import NEVER
from autoscaler.kubernetes.pods import PodCache, is_indexable, list_pods
from autoscaler.kubernetes.reflector import CacheT, OperatorNotes, Reflector, WatchState
from autoscaler.kubernetes.scale_cache import Key, ScaleCache
from autoscaler.kubernetes.scales import Scales
from autoscaler.kubernetes.watch_requests import ClusterBudget, WatchTimings
from autoscaler.kubernetes.watch_scopes import Changed, WatchScopes
from autoscaler.transport import UNOBSERVED, Observer

_CLOSE_SECONDS = 1.0
_MOST_POD_NAMESPACES = 8
"""Above this number, one watch covers the pods of all namespaces, and drops unneeded pods."""

ABSENT_SECONDS = 5.0
"""After this time without `attend`, in seconds, the process counts as suspended."""

LISTED_WITHIN_SECONDS = 10.0
"""How long after a suspension syncs wait for the new lists; later failing lists delay no sync."""

_ABSENCE = "absence"
"""The topic of a note."""

_Kind = tuple[str, str]
"""apiVersion and kind of a target's reference."""


class WatchedCluster:
    """A `sync.ports.Cluster` by watches; ``observer`` is informed of failures and recoveries."""

    def __init__(
        self,
        api: Api,
        scales: Scales,
        *,
        observer: Observer = UNOBSERVED,
        timings: WatchTimings | None = None,
        budget: ClusterBudget | None = None,
    ) -> None:
        self._api = api
        self._scales = scales
        self.list_pods = partial(list_pods, api)
        self._targets: tuple[Target, ...] = ()
        self._notes = OperatorNotes(observer.watch_changed)
        self._deletion_costs = DeletionCosts(
            api, scales.gate, OperatorNotes(partial(observer.writes_changed, "deletion_costs"))
        )
        self._timings = timings or WatchTimings()
        self._budget = budget or ClusterBudget()
        self._lock = threading.RLock()
        self._changed = threading.Condition()
        self._closed = False
        self._attended: float | None = None
        """When the process was last known to run, by `clock.steady`; None before the first time."""
        self._attending = threading.Lock()
        self._wait_until = 0.0
        """The deadline of new lists, by `clock.monotonic`."""
        self._wanted: dict[_Kind, frozenset[Key]] = {}
        self._scale_watches: dict[_Kind, WatchScopes[ScaleCache]] = {}
        self._scaled: frozenset[Controlled] = frozenset()
        """The objects of all targets; their HPAs are compared with the decisions."""
        self._autoscaler_watches = self._watches_of(
            lambda namespace: AutoscalerCache(namespace, lambda name: name in self._scaled),
            1,
            self._timings.first_refusal_confirmed_after,
        )
        self._asked: dict[str, frozenset[str]] = {}
        """By namespace: the selectors that were requested and not in the cache."""
        self._pod_watches = self._watches_of(
            lambda namespace: PodCache(namespace, self._selectors, self._await_scales),
            _MOST_POD_NAMESPACES,
        )

    # -- life ------------------------------------------------------------------------------

    def set_targets(self, targets: Sequence[Target]) -> None:
        """Watch what these targets need, and nothing else.

        Each watch is on its own daemon thread.
        """
        wanted: dict[_Kind, set[Key]] = defaultdict(set)
        for target in targets:
            ref = target.spec.scale_target_ref
            wanted[ref.api_version, ref.kind].add((target.namespace, ref.name))
        with self._lock:
            if self._closed:
                return
            self._targets = tuple(targets)
            self._watch_hpas(targets)
            self._autoscaler_watches.need({target.namespace for target in targets})
            old = self._wanted
            self._wanted = {kind: frozenset(keys) for kind, keys in wanted.items()}
            for kind in self._scale_watches.keys() - wanted.keys():
                self._scale_watches.pop(kind).end()
            for kind, keys in self._wanted.items():
                self._watch_scales(kind, more=bool(keys - old.get(kind, frozenset())))
            self._asked = {}
            self._pod_watches.need(self._pod_namespaces())

    def wait_synced(self, deadline: float) -> bool:
        """Wait until the caches are complete; False if the deadline comes first."""
        return self._wait(deadline, lambda: all(watches.settled for watches in self._scopes()))

    def attend(self) -> None:
        """Note each second that the process runs; after a suspension list everything again."""
        now = clock.steady()
        with self._attending:
            before, self._attended = self._attended, now
            if before is None or now - before <= ABSENT_SECONDS:
                return
            self._wait_until = clock.monotonic() + LISTED_WITHIN_SECONDS
            why = f"this process was suspended for {duration(now - before)}"
            for watch in self._watches():
                watch.distrust(why)
        self._notes.notify(_ABSENCE, f"{why}: the cluster is listed again")

    def is_current(self) -> bool:
        """Return whether no list after a suspension is pending."""
        self.attend()
        current = self._is_current()
        if current:
            self._notes.resolved(_ABSENCE, "the watches have been listed again")
        return current

    def _is_current(self) -> bool:
        return all(watch.distrusted is None for watch in self._watches())

    def wait_current(self, deadline: float) -> None:
        """Wait until a deadline for pending lists; later, missing objects are unavailable."""
        self.attend()
        self._wait(min(deadline, self._wait_until), self._is_current)
        self.is_current()

    def listing_anew(self) -> Callable[[float], None] | None:
        """Return a function that waits for pending lists; None without any."""
        return None if self.is_current() else self.wait_current

    def leads_since(self, namespace: str) -> float | None:
        """Return the time from which this process leads and may write there; None if it may not."""
        return self._scales.gate.leads_since(namespace)

    def _scopes(self) -> list[WatchScopes[Any]]:
        with self._lock:
            return [*self._scale_watches.values(), self._pod_watches, self._autoscaler_watches]

    def _watches(self) -> Iterator[Reflector[Any]]:
        for watches in self._scopes():
            yield from watches.watches()

    def _wait(self, deadline: float, is_over: Callable[[], bool]) -> bool:
        with self._changed:
            return self._changed.wait_for(
                lambda: self._closed or is_over(),
                timeout=max(0.0, deadline - clock.monotonic()),
            )

    def _attend_again(self) -> None:
        """Call `attend`, if that has begun: the first thread after a suspension must notice it."""
        if self._attended is not None:
            self.attend()

    def close(self) -> None:
        """End the watches, within about a second; everything must be read directly from now on."""
        with self._lock:
            self._closed = True
            scopes = self._scopes()
        self._notify()
        deadline = clock.monotonic() + _CLOSE_SECONDS
        for watches in scopes:
            watches.end()
        for watches in scopes:
            watches.join(deadline)

    # -- scales ----------------------------------------------------------------------------

    def cached_scale(self, namespace: str, ref: ScaleTargetRef) -> Scale | ReadFailure | None:
        """Return the scale from the cache; None if it must be read directly.

        A ReadFailure: the object does not exist, the watch has been broken too long, or the other
        autoscalers are unknown yet.
        """
        self._attend_again()
        missing = self._autoscalers_missing(namespace)
        watch = self._synced_scales(namespace, ref)
        if missing or watch is None:
            return missing
        return watch.stale_reason or watch.cache.cached(namespace, ref.name)

    def _autoscalers_missing(self, namespace: str) -> ReadFailure | None:
        """Return why nothing may be decided before the other autoscalers were listed once."""
        watch = self._autoscaler_watches.find(namespace)
        if self._closed or watch is None:
            return None
        if watch.state is not WatchState.STARTING:
            return watch.distrusted
        confirmed_at = watch.confirmed_at
        if confirmed_at is None and watch.stale_reason is not None:
            return watch.stale_reason
        why = "" if watch.reason is None else f": {watch.reason}"
        if confirmed_at is not None:
            why += (
                "; an API server that has just started may refuse it for a moment, so unless it "
                f"is listed nothing is decided here before {confirmed_at}"
            )
        return ReadFailure(f"waiting for the first list of {watch.cache.name}{why}")

    def _scale_watch_of(self, namespace: str, ref: ScaleTargetRef) -> Reflector[ScaleCache] | None:
        watches = self._scale_watches.get((ref.api_version, ref.kind))
        return None if watches is None else watches.find(namespace)

    def _synced_scales(self, namespace: str, ref: ScaleTargetRef) -> Reflector[ScaleCache] | None:
        """Return the watch whose cache has the scale, even if it is not current."""
        watch = self._scale_watch_of(namespace, ref)
        synced = watch is not None and watch.state is WatchState.SYNCED and not self._closed
        return watch if synced else None

    def cached_controller(
        self, namespace: str, ref: ScaleTargetRef
    ) -> str | UncheckedControl | None:
        """Return the name of a HorizontalPodAutoscaler of the object; None without one.

        While the watch of HPAs is broken, the last known ones count; while it is refused, or its
        first list is not complete, the answer is Unchecked.
        """
        watches = self._autoscaler_watches
        watch = watches.find(namespace)
        if watch is None or watch.state is WatchState.SYNCED:
            return None if watch is None else watch.cache.controller(namespace, ref)
        why = watch.reason or f"waiting for the first list of {watch.cache.name}"
        listed = [watch, *watches.covering(namespace)]
        last = next((each.cache for each in listed if each.cache.listed), None)
        return UncheckedControl(
            why, None if last is None else last.controller(namespace, ref) or ""
        )

    def cached_hpa(self, namespace: str, ref: ScaleTargetRef, since: float) -> Hpa | None:
        """Return the HPA of an object from the cache (`AutoscalerCache.hpa`)."""
        watch = self._autoscaler_watches.find(namespace)
        if watch is None or watch.state is not WatchState.SYNCED or watch.stale_reason is not None:
            return None
        return watch.cache.hpa(namespace, ref, since)

    def read_scale(
        self, namespace: str, ref: ScaleTargetRef, deadline: float
    ) -> Scale | ReadFailure:
        """Read the scale, with its annotations unless the kind cannot be watched at all."""
        watch = self._scale_watch_of(namespace, ref)
        if watch is None or watch.state is WatchState.REFUSED or self._closed:
            return self._scales.read(namespace, ref, deadline)
        return self._scales.read_annotated(namespace, ref, deadline)

    def write_scale(
        self, namespace: str, ref: ScaleTargetRef, scale: Scale, replicas: int, deadline: float
    ) -> WriteOutcome:
        """Write as `Scales.write` does, and add the server's answer to the cache."""
        outcome = self._scales.write(namespace, ref, scale, replicas, deadline)
        watches = self._scale_watches.get((ref.api_version, ref.kind))
        if watches is not None and isinstance(outcome, AcceptedWrite | WriteConflict):
            for watch in watches.covering(namespace):
                watch.cache.put(namespace, ref.name, outcome.scale)
        return outcome

    # -- pods ------------------------------------------------------------------------------

    def cached_pods(self, namespace: str, selector: str) -> tuple[Pod, ...] | None:
        """Return the pods from the cache, by name; None if they must be listed.

        A selector is watched from its first request on. A watch that has been broken for some
        seconds is not used: removed pods would count as missing next to fresh metrics.
        """
        if self._closed:
            return None
        self._attend_again()
        watch = self._pod_watches.find(namespace)
        if watch is not None and watch.state is WatchState.SYNCED:
            if watch.distrusted is not None or watch.is_behind(self._timings.pods_trusted):
                return None
            pods = watch.cache.pods(namespace, selector)
            if pods is not None:
                return pods
        if watch is not None and watch.cache.expects(namespace, selector):
            return None
        if selector not in self._asked.get(namespace, ()) and is_indexable(selector):
            self._ask(namespace, selector)
        return None

    def set_deletion_costs(
        self, namespace: str, costs: Mapping[str, int | None], deadline: float
    ) -> UnsetCosts:
        """Set or remove deletion costs of pods (`DeletionCosts.apply`)."""
        return self._deletion_costs.apply(namespace, costs, deadline)

    # -- watches ---------------------------------------------------------------------------

    def _watches_of(
        self, create: Callable[[str], CacheT], most: int, refusal_confirmed_after: float = 0.0
    ) -> WatchScopes[CacheT]:
        """Return the watches of a resource; ``create`` makes the cache of a namespace or ALL."""

        def watch(namespace: str, changed: Changed[CacheT]) -> Reflector[CacheT]:
            cache = create(namespace)
            cache.budget = self._budget
            return Reflector(
                self._api,
                cache,
                self._timings,
                self._notes,
                changed,
                first_refusal_confirmed_after=refusal_confirmed_after,
            )

        return WatchScopes(watch, most, self._notes, self._notify)

    def _watch_hpas(self, targets: Sequence[Target]) -> None:
        """Keep complete HPAs of targets; HPAs that were not complete are listed again."""
        refs = [(target.namespace, target.spec.scale_target_ref) for target in targets]
        before = self._scaled
        self._scaled = frozenset((name, ref.group, ref.kind, ref.name) for name, ref in refs)
        if self._scaled - before:
            for watch in self._autoscaler_watches.watches():
                watch.relist()

    def _watch_scales(self, kind: _Kind, *, more: bool) -> None:
        """Watch one kind; ``more`` means that new objects are wanted."""
        watches = self._scale_watches.get(kind)
        if watches is None:
            watches = self._watches_of(partial(self._scale_cache, kind), 1)
            self._scale_watches[kind] = watches
        elif more:
            for watch in watches.watches():
                watch.relist()
        watches.need({namespace for namespace, _ in self._wanted[kind]})

    def _scale_cache(self, kind: _Kind, namespace: str) -> ScaleCache:
        ref = ScaleTargetRef(*kind, name="")
        return ScaleCache(
            *(self._api, self._scales.kinds, ref, namespace),
            lambda: self._wanted.get(kind, frozenset()),
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
        needing = {target.namespace for target in self._targets if target.needs_pods}
        return needing | self._asked.keys()

    def _selectors(self) -> dict[str, frozenset[str]]:
        """Return the requested selectors, and the selectors of cached scales of any age."""
        with self._lock:
            wanted = {namespace: set(selectors) for namespace, selectors in self._asked.items()}
            targets = self._targets
        for target in targets:
            if target.needs_pods:
                selectors = wanted.setdefault(target.namespace, set())
                ref = target.spec.scale_target_ref
                watch = self._synced_scales(target.namespace, ref)
                scale = None if watch is None else watch.cache.cached(target.namespace, ref.name)
                if isinstance(scale, Scale):
                    selectors.add(scale.selector)
        return {namespace: frozenset(selectors) for namespace, selectors in wanted.items()}

    def _await_scales(self, deadline: float) -> None:
        """Wait for the scales, whose selectors determine the wanted pods."""
        self._wait(
            deadline,
            lambda: all(watches.settled for watches in list(self._scale_watches.values())),
        )

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()


class UncachedCluster:
    """A `sync.ports.Cluster` for plans: only ``others`` are cached, and nothing is written."""

    def __init__(
        self, api: Api, others: ListedAutoscalers | None = None, observer: Observer = UNOBSERVED
    ) -> None:
        self._scales = Scales(api, observer=observer)
        self._others = others
        self.list_pods = partial(list_pods, api)

    def leads_since(self, _: str) -> float:
        """Return the beginning of time: a plan is made as if by the leader."""
        return NEVER

    def cached_scale(self, *_: object) -> None:
        """Return None: nothing is cached."""

    cached_pods = listing_anew = cached_scale

    def cached_controller(
        self, namespace: str, ref: ScaleTargetRef
    ) -> str | UncheckedControl | None:
        """Return who controls an object, from the list."""
        return None if self._others is None else self._others.controller(namespace, ref)

    def cached_hpa(self, namespace: str, ref: ScaleTargetRef, since: float) -> Hpa | None:  # noqa: ARG002 - the port's
        """Return the HPA of an object, from the list."""
        return None if self._others is None else self._others.hpa(namespace, ref)

    def read_scale(
        self, namespace: str, ref: ScaleTargetRef, deadline: float
    ) -> Scale | ReadFailure:
        """Read the scale with the object's annotations."""
        return self._scales.read_annotated(namespace, ref, deadline, tells=True)

    def write_scale(self, *_: object) -> SkippedWrite:
        """Leave the scale as it is."""
        return SkippedWrite(SkippedWriteReason.PLANNED)

    def set_deletion_costs(self, *_: object) -> UnsetCosts:
        """Leave the pods as they are: a plan shows what a daemon would do."""
        return UnsetCosts()
