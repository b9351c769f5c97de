"""Targets for the watches, and how tests wait for what they show."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from autoscaler import clock
from autoscaler.core.observation import Pod, ReadFailure, Scale
from autoscaler.core.spec import (
    ExternalMetric,
    HorizontalPodAutoscalerSpec,
    MetricIdentifier,
    MetricTarget,
    ResourceMetric,
    ScaleTargetRef,
    TargetType,
)
from autoscaler.core.target import Query, Target
from autoscaler.kubernetes import Api, Scales, WatchedCluster
from autoscaler.kubernetes.watch_requests import WatchTimings
from tests.worlds.cluster.cluster import Noting, eventually
from tests.worlds.cluster.scripted import failure
from tests.worlds.cluster.watch_script import WatchScript

QUICK = WatchTimings(
    shortest_watch=2,
    longest_watch=2,
    grace=1.0,
    head=5.0,
    first_pause=0.05,
    longest_pause=0.5,
    refused_pause=0.5,
    refusal_confirmed_after=0.3,
    first_refusal_confirmed_after=0.0,
    trusted=6.0,
    pods_trusted=5.0,
    gather=0.1,
    page=3,
)
"""A pace at which a test need not wait long, with pages so small that each list has several."""

SLOW = replace(QUICK, shortest_watch=60, longest_watch=60)
"""Watches that no timeout of ours ends during a test."""

_EXTERNAL = ExternalMetric(
    MetricIdentifier("queue"), MetricTarget(TargetType.AVERAGE_VALUE, average_value=30_000)
)
_CPU = ResourceMetric("cpu", MetricTarget(TargetType.UTILIZATION, average_utilization=80))


def deployment_ref(name: str) -> ScaleTargetRef:
    return ScaleTargetRef("apps/v1", "Deployment", name)


def target(namespace: str, ref: ScaleTargetRef | str, *, pods: bool = False) -> Target:
    """Make a target, of a Deployment where only a name is given, whose decision needs pods."""
    named = deployment_ref(ref) if isinstance(ref, str) else ref
    spec = HorizontalPodAutoscalerSpec(named, 1, 10, (_CPU if pods else _EXTERNAL,))
    return Target(namespace, spec, (Query("up"),))


WEB = deployment_ref("web")
SHOP, TILL = target("shop", "web"), target("till", "web")
REFUSED_WORDS = "horizontalpodautoscalers is forbidden"
"""The server's words in FORBIDDEN, which every message on the refusal repeats."""
FORBIDDEN = failure(403, "Forbidden", REFUSED_WORDS)
BROKEN = failure(500, "InternalError", "no leader")


Watch = Callable[..., tuple[WatchScript, WatchedCluster, list[str]]]
"""The fixture `watch`: starts a script and its watches, and gives the notes that they make."""


@contextmanager
def watching(
    api: Api,
    targets: Iterable[Target],
    *,
    pace: WatchTimings = QUICK,
    notes: list[str] | None = None,
    synced: bool = True,
) -> Iterator[WatchedCluster]:
    noting = Noting([] if notes is None else notes)
    before = set(threading.enumerate())
    watched = WatchedCluster(api, Scales(api), observer=noting, timings=pace)
    watched.set_targets(tuple(targets))
    try:
        if synced:
            assert watched.wait_synced(clock.monotonic() + 20)
        yield watched
    finally:
        watched.close()
        # Where one is held up the end does not wait for it, but the next test counts threads.
        eventually(lambda: set(_all_of_watches()) - before, lambda left: not left)


def _all_of_watches() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("watch ")]


def watch_threads() -> list[str]:
    threads = [thread.name for thread in _all_of_watches()]
    return sorted(name for name in threads if not name.startswith("watch Horizontal"))


def scale_of(watched: WatchedCluster, namespace: str, ref: ScaleTargetRef | str) -> Scale:
    named = deployment_ref(ref) if isinstance(ref, str) else ref
    scale = watched.cached_scale(namespace, named)
    assert isinstance(scale, Scale), scale
    return scale


def await_scale(
    watched: WatchedCluster,
    namespace: str,
    ref: ScaleTargetRef | str,
    wanted: Callable[[Scale | ReadFailure | None], bool],
    seconds: float = 20.0,
) -> Scale | ReadFailure | None:
    named = deployment_ref(ref) if isinstance(ref, str) else ref
    return eventually(lambda: watched.cached_scale(namespace, named), wanted, seconds)


def has_count(count: int, seen: Scale | ReadFailure | None) -> bool:
    return isinstance(seen, Scale) and seen.spec_replicas == count


def await_count(watched: WatchedCluster, count: int) -> None:
    """Wait until the Deployment "web" of namespace shop has a count."""
    await_scale(watched, "shop", "web", partial(has_count, count), 10.0)


def await_pods(
    watched: WatchedCluster,
    namespace: str,
    selector: str,
    wanted: Callable[[tuple[Pod, ...]], bool],
) -> tuple[Pod, ...]:
    pods = eventually(
        lambda: watched.cached_pods(namespace, selector),
        lambda seen: isinstance(seen, tuple) and wanted(seen),
    )
    assert isinstance(pods, tuple)
    return pods


def names(pods: tuple[Pod, ...]) -> list[str]:
    return [pod.name for pod in pods]
