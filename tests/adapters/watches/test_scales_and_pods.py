"""Cached scales and pods equal the answers of the server, and follow every change."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from autoscaler.core.observation import Pod, ReadFailure, Scale
from autoscaler.core.spec import ConditionStatus, ScaleTargetRef
from autoscaler.core.writes import AcceptedWrite, WriteConflict
from autoscaler.kubernetes import Api, Scales, WatchedCluster, list_pods
from tests.adapters.watches.targets import (
    QUICK,
    WEB,
    await_pods,
    await_scale,
    deployment_ref,
    has_count,
    names,
    scale_of,
    target,
    watch_threads,
    watching,
)
from tests.narrowing import assert_parts, instance
from tests.worlds.cluster import manifests
from tests.worlds.cluster.cluster import ClusterUnderTest, eventually, soon
from tests.worlds.cluster.clusters import fresh_namespace
from tests.worlds.cluster.manifests import CREW
from tests.worlds.controlplane.api import Json

_EXPRESSIONS = [
    {"key": "tier", "operator": "NotIn", "values": ["z", "db"]},
    {"key": "app", "operator": "In", "values": ["web", "api"]},
    {"key": "canary", "operator": "DoesNotExist"},
    {"key": "zone", "operator": "Exists"},
]


def _unattributed(scale: Scale | ReadFailure | None) -> Scale | ReadFailure | None:
    """Return what GET scale tells: all but who set the count, and how often the spec changed."""
    return replace(scale, replicas_by="", generation=0) if isinstance(scale, Scale) else scale


def _await_equality(at_hand: Callable[[], object], answered: Callable[[], object]) -> None:
    """Wait until the cache equals the answer of the server: controllers are at work."""
    eventually(
        lambda: (at_hand(), answered()),
        lambda both: isinstance(both[0], Scale | tuple) and both[0] == both[1],
    )


def _await_pods_of_list(watched: WatchedCluster, api: Api, namespace: str, selector: str) -> None:
    _await_equality(
        lambda: watched.cached_pods(namespace, selector),
        lambda: list_pods(api, namespace, selector, soon()),
    )


def _with_expressions(workload: Json) -> Json:
    """Give a workload a selector with every operator, and labels that it matches."""
    workload["spec"]["selector"] = {
        "matchLabels": {"app": "web", "a.example.com/x": "1"},
        "matchExpressions": _EXPRESSIONS,
    }
    workload["spec"]["template"]["metadata"]["labels"] |= {"a.example.com/x": "1", "zone": "a"}
    return workload


EXPRESSIVE = _with_expressions(manifests.deployment("web", 2))
CONTROLLER = manifests.replication_controller("web", 2)


@pytest.mark.parametrize(
    ("api_version", "kind", "plural", "workload"),
    [
        ("apps/v1", "Deployment", "deployments", manifests.deployment("web", 2)),
        ("apps/v1", "Deployment", "deployments", manifests.deployment("web", 0)),
        ("apps/v1", "Deployment", "deployments", EXPRESSIVE),
        ("apps/v1", "StatefulSet", "statefulsets", manifests.stateful_set("web", 2)),
        ("apps/v1", "ReplicaSet", "replicasets", manifests.replica_set("web", 2)),
        ("v1", "ReplicationController", "replicationcontrollers", CONTROLLER),
    ],
    ids=["Deployment", "no-replicas", "every-operator", "StatefulSet", "ReplicaSet", "RC"],
)
def test_every_kind_is_cached_as_the_server_answers_and_written(
    cluster: ClusterUnderTest,
    api: Api,
    namespace: str,
    api_version: str,
    kind: str,
    plural: str,
    workload: Json,
) -> None:
    root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
    path = f"{root}/namespaces/{namespace}/{plural}"
    ref = ScaleTargetRef(api_version, kind, "web")
    with watching(api, [target(namespace, ref)]) as early:
        cluster.create(path, workload)
        with watching(api, [target(namespace, ref)]) as late:
            for watched in (early, late):
                _await_equality(
                    lambda: _unattributed(watched.cached_scale(namespace, ref)),  # noqa: B023 - called here
                    lambda: Scales(api).read(namespace, ref, soon()),
                )
                replicas = workload["spec"]["replicas"]
                scale = scale_of(watched, namespace, ref)
                assert scale.spec_replicas == replicas
                metadata = cluster.get(f"{path}/web").body["metadata"]
                assert scale.generation == metadata["generation"]
    _assert_writes(cluster, api, namespace, ref, f"{path}/web", "replicas")


def _assert_writes(
    cluster: ClusterUnderTest, api: Api, namespace: str, ref: ScaleTargetRef, path: str, field: str
) -> None:
    """Check that a write adds one replica to the field of an object, and answers with it."""
    scale = instance(Scale, Scales(api).read(namespace, ref, soon()))
    wanted = scale.spec_replicas + 1
    written = Scales(api).write(namespace, ref, scale, wanted, soon())
    assert instance(AcceptedWrite, written).scale.spec_replicas == wanted
    assert cluster.get(path).body["spec"][field] == wanted


@pytest.mark.usefixtures("crews")
def test_a_custom_resource_is_read_and_written_by_the_paths_of_its_definition(
    cluster: ClusterUnderTest, api: Api, namespace: str
) -> None:
    path = manifests.crews(namespace)
    cluster.create(path, manifests.crew("alpha", 4))
    with watching(api, [target(namespace, CREW)]) as watched:
        bare = scale_of(watched, namespace, CREW)
        assert _unattributed(bare) == Scales(api).read(namespace, CREW, soon())
        assert (bare.spec_replicas, bare.status_replicas, bare.selector) == (4, 0, "")
        cluster.patch(f"{path}/alpha/status", {"status": {"aboard": 3, "selector": "crew=a"}})
        await_scale(watched, namespace, CREW, lambda seen: seen != bare)
        full = scale_of(watched, namespace, CREW)
        alias = ScaleTargetRef(f"{manifests.CRD_GROUP}/v1alpha1", "Crew", "alpha")
        for ref in (CREW, alias):
            assert _unattributed(full) == Scales(api).read(namespace, ref, soon())
        assert (full.status_replicas, full.selector) == (3, "crew=a")
    _assert_writes(cluster, api, namespace, CREW, f"{path}/alpha", "size")


@pytest.mark.usefixtures("crews")
def test_a_custom_resource_without_a_count_is_read_directly(
    cluster: ClusterUnderTest, api: Api, namespace: str
) -> None:
    path = manifests.crews(namespace)
    crew = manifests.crew("alpha", 4)
    cluster.create(path, crew | {"spec": {}})
    with watching(api, [target(namespace, CREW)]) as watched:
        assert watched.cached_scale(namespace, CREW) is None
        assert isinstance(watched.read_scale(namespace, CREW, soon()), ReadFailure)


def test_created_changed_and_deleted_objects_are_followed(
    cluster: ClusterUnderTest, api: Api, namespace: str
) -> None:
    path = manifests.deployments(namespace)
    with watching(api, [target(namespace, "web")]) as watched:
        missing = instance(ReadFailure, watched.cached_scale(namespace, WEB))
        assert_parts(missing, 'deployments.apps "web"', f'"{namespace}"')
        assert watched.read_scale(namespace, WEB, soon()) == missing
        cluster.create(path, manifests.deployment("web", 2))
        await_scale(watched, namespace, WEB, lambda seen: isinstance(seen, Scale))
        cluster.patch(f"{path}/web/scale", {"spec": {"replicas": 5}})
        await_scale(watched, namespace, WEB, partial(has_count, 5))
        cluster.request("DELETE", f"{path}/web")
        await_scale(watched, namespace, WEB, lambda seen: seen == missing)
        cluster.create(path, manifests.deployment("web", 7))
        await_scale(watched, namespace, WEB, partial(has_count, 7))


def test_the_cache_has_the_result_of_a_write_at_once(
    cluster: ClusterUnderTest, api: Api, namespace: str
) -> None:
    path = manifests.deployments(namespace)
    cluster.create(path, manifests.deployment("web", 1))
    with watching(api, [target(namespace, "web")]) as watched:
        for count in range(2, 12):
            scale = scale_of(watched, namespace, "web")
            outcome = watched.write_scale(namespace, WEB, scale, count, soon())
            assert isinstance(outcome, AcceptedWrite), outcome
            assert scale_of(watched, namespace, "web").spec_replicas == count
        scale = scale_of(watched, namespace, "web")
        cluster.patch(f"{path}/web/scale", {"spec": {"replicas": 4}})
        assert isinstance(watched.write_scale(namespace, WEB, scale, 9, soon()), WriteConflict)
        assert scale_of(watched, namespace, "web").spec_replicas == 4


def test_one_watch_serves_all_namespaces(cluster: ClusterUnderTest, api: Api) -> None:
    with fresh_namespace(cluster, "watches") as first, fresh_namespace(cluster, "watches") as other:
        for count, namespace in enumerate((first, other), 1):
            cluster.create(manifests.deployments(namespace), manifests.deployment("web", count))
        cluster.create(manifests.deployments(first), manifests.deployment("alone", 3))
        targets = [target(first, "web"), target(other, "web"), target(other, "alone")]
        with watching(api, targets) as watched:
            assert watch_threads() == ["watch Deployment.apps"]
            assert scale_of(watched, first, "web").spec_replicas == 1
            assert scale_of(watched, other, "web").spec_replicas == 2
            assert isinstance(watched.cached_scale(other, deployment_ref("alone")), ReadFailure)
            # It is not a target: the watch does not keep it.
            assert watched.cached_scale(first, deployment_ref("alone")) is None
        assert watch_threads() == []


def test_targets_may_be_replaced(cluster: ClusterUnderTest, api: Api, namespace: str) -> None:
    for name in ("web", "api"):
        cluster.create(manifests.deployments(namespace), manifests.deployment(name, 1))
    path = f"/apis/apps/v1/namespaces/{namespace}/statefulsets"
    cluster.create(path, manifests.stateful_set("db", 1))
    db = ScaleTargetRef("apps/v1", "StatefulSet", "db")
    with watching(api, [target(namespace, "web")]) as watched:
        watched.set_targets([target(namespace, "api"), target(namespace, db)])
        for ref in (deployment_ref("api"), db):
            await_scale(watched, namespace, ref, lambda seen: isinstance(seen, Scale))
        assert watched.cached_scale(namespace, WEB) is None


def _are_ready(count: int, pods: tuple[Pod, ...]) -> bool:
    ready = [pod for pod in pods if pod.ready is ConditionStatus.TRUE and not pod.deleted]
    return len(ready) == len(pods) == count


def test_pods_follow_the_scale(cluster: ClusterUnderTest, api: Api, namespace: str) -> None:
    path = f"{manifests.deployments(namespace)}/web"
    cluster.create(manifests.deployments(namespace), manifests.deployment("web", 2))
    with watching(api, [target(namespace, "web", pods=True)]) as watched:
        assert scale_of(watched, namespace, "web").selector == "app=web"
        # The selector was known from the scale: the first list has the pods already.
        assert isinstance(watched.cached_pods(namespace, "app=web"), tuple)
        for count in (4, 1, 3):
            cluster.patch(f"{path}/scale", {"spec": {"replicas": count}})
            await_pods(watched, namespace, "app=web", partial(_are_ready, count))
            _await_pods_of_list(watched, api, namespace, "app=web")


def test_unchanged_pods_are_the_same_tuple(
    cluster: ClusterUnderTest, api: Api, namespace: str
) -> None:
    path = manifests.pods(namespace)
    cluster.create(path, manifests.pod("a", {"app": "web"}))
    with watching(api, [target(namespace, "web", pods=True)]) as watched:
        before = await_pods(watched, namespace, "app=web", lambda pods: names(pods) == ["a"])
        ready = await_pods(
            watched, namespace, "app=web", lambda p: p[0].ready is ConditionStatus.TRUE
        )
        assert before is not None
        assert watched.cached_pods(namespace, "app=web") is ready
        # Another label changes nothing that a decision looks at.
        cluster.patch(f"{path}/a", {"metadata": {"labels": {"other": "x"}}})
        cluster.create(path, manifests.pod("b", {"app": "api"}))
        await_pods(watched, namespace, "app=api", lambda pods: names(pods) == ["b"])
        again = watched.cached_pods(namespace, "app=web")
        assert again == ready


def test_a_namespace_is_watched_when_it_is_asked_for(
    cluster: ClusterUnderTest, api: Api, namespace: str
) -> None:
    path = manifests.pods(namespace)
    cluster.create(path, manifests.pod("a", {"app": "web", "tier": "x"}))
    pace = replace(QUICK, pods_trusted=60.0)
    with watching(api, [target(namespace, "web")], pace=pace) as watched:
        assert len(watch_threads()) == 1
        assert watched.cached_pods(namespace, "app=web,tier=x") is None
        await_pods(watched, namespace, "app=web,tier=x", lambda pods: names(pods) == ["a"])
        assert len(watch_threads()) == 2
        # Another selector needs a new list; the first one is answered all the time.
        assert watched.cached_pods(namespace, "tier") is None
        while watched.cached_pods(namespace, "tier") is None:
            assert isinstance(watched.cached_pods(namespace, "app=web,tier=x"), tuple)
        _await_pods_of_list(watched, api, namespace, "tier")


@pytest.mark.parametrize("selector", ["", "a in b", "size>3"])
def test_a_selector_that_is_not_understood_is_left_to_the_server(
    api: Api, namespace: str, selector: str
) -> None:
    with watching(api, [target(namespace, "web")]) as watched:
        assert watched.cached_pods(namespace, selector) is None
        assert len(watch_threads()) == 1


def test_a_pod_whose_label_changes_moves(
    cluster: ClusterUnderTest, api: Api, namespace: str
) -> None:
    path = manifests.pods(namespace)
    cluster.create(path, manifests.pod("a", {"app": "web"}))
    with watching(api, [target(namespace, "web", pods=True)]) as watched:
        await_pods(watched, namespace, "app=web", lambda pods: names(pods) == ["a"])
        await_pods(watched, namespace, "app=api", lambda pods: not pods)
        cluster.patch(f"{path}/a", {"metadata": {"labels": {"app": "api"}}})
        await_pods(watched, namespace, "app=api", lambda pods: names(pods) == ["a"])
        assert watched.cached_pods(namespace, "app=web") == ()
        cluster.request("DELETE", f"{path}/a", {"gracePeriodSeconds": 0})
        await_pods(watched, namespace, "app=api", lambda pods: not pods)


def test_many_namespaces_share_a_watch(cluster: ClusterUnderTest, api: Api, namespace: str) -> None:
    path = manifests.pods(namespace)
    cluster.create(path, manifests.pod("a", {"app": "web"}))
    elsewhere = [f"elsewhere-{number}" for number in range(9)]
    targets = [target(name, "web", pods=True) for name in (namespace, *elsewhere)]
    with watching(api, targets) as watched:
        assert watch_threads() == ["watch Deployment.apps", "watch pods"]
        await_pods(watched, namespace, "app=web", lambda pods: names(pods) == ["a"])
        await_pods(watched, "elsewhere-3", "app=web", lambda pods: not pods)
        assert watched.cached_scale(namespace, deployment_ref("web")) is not None
    assert watch_threads() == []


def test_a_ninth_namespace_joins_the_others(
    cluster: ClusterUnderTest, api: Api, namespace: str
) -> None:
    cluster.create(manifests.pods(namespace), manifests.pod("a", {"app": "web"}))
    with watching(api, []) as watched:
        asked = [f"elsewhere-{number}" for number in range(9)]
        for name in [namespace, *asked]:
            watched.cached_pods(name, "app=web")
        eventually(watch_threads, lambda seen: seen == ["watch pods"])
        await_pods(watched, namespace, "app=web", lambda pods: names(pods) == ["a"])
        for name in asked:
            await_pods(watched, name, "app=web", lambda pods: not pods)
