"""Annotations of workloads that are ours, such as those that pause a target."""

import pytest

from autoscaler import clock
from autoscaler.core.observation import Scale, Unavailable
from autoscaler.core.spec import ScaleTargetRef
from autoscaler.core.writes import Written
from autoscaler.kubernetes import Api, UncachedCluster
from autoscaler.kubernetes.discovery import annotations_of
from tests.adapters.watches.targets import (
    SLOW,
    WEB,
    Watch,
    await_scale,
    scale_of,
    soon,
    target,
    watching,
)
from tests.worlds.cluster import manifests
from tests.worlds.cluster.cluster import ClusterUnderTest, Json, Noting, eventually
from tests.worlds.cluster.roles import READ_SCALES, await_granted, grant
from tests.worlds.cluster.scripted import Answer
from tests.worlds.cluster.watch_script import Script, deployment, listed

CREW = ScaleTargetRef(f"{manifests.CRD_GROUP}/v1", "Crew", "alpha")
PAUSED = (("autoscaler/paused", "true"),)


def _annotated(annotations: Json) -> Json:
    return {"metadata": {"annotations": annotations}}


@pytest.mark.usefixtures("crews")
@pytest.mark.parametrize("ref", [WEB, CREW], ids=["Deployment", "custom resource"])
def test_they_come_with_the_scale_and_go(
    cluster: ClusterUnderTest, api: Api, namespace: str, ref: ScaleTargetRef
) -> None:
    """Those of others are left out; listed, told by an event and read for a plan they are alike."""
    if ref is CREW:
        path = manifests.crews(namespace)
        cluster.create(path, manifests.crew("alpha", 4))
    else:
        path = manifests.deployments(namespace)
        cluster.create(path, manifests.deployment("web", 0))
    path = f"{path}/{ref.name}"
    plan = UncachedCluster(api)
    with watching(api, [target(namespace, ref)], pace=SLOW) as watched:
        assert scale_of(watched, namespace, ref).annotations == ()
        both = {"autoscaler/paused-until": "2026-11-22T18:00:00Z", "autoscaler/paused": "true"}
        reply = cluster.patch(path, _annotated(both | {"example.com/paused": "true"}))
        assert reply.status == 200
        wanted = tuple(sorted(both.items()))
        await_scale(
            watched, namespace, ref, lambda seen: getattr(seen, "annotations", None) == wanted
        )
        assert getattr(plan.read_scale(namespace, ref, soon()), "annotations", None) == wanted
        with watching(api, [target(namespace, ref)]) as late:
            assert scale_of(late, namespace, ref).annotations == wanted
        cluster.patch(path, _annotated(dict.fromkeys(both)))
        await_scale(watched, namespace, ref, lambda seen: getattr(seen, "annotations", None) == ())
        assert getattr(plan.read_scale(namespace, ref, soon()), "annotations", None) == ()


def test_they_stay_after_our_own_write(cluster: ClusterUnderTest, api: Api, namespace: str) -> None:
    """The answer to a write does not have them: a pause must not end for a moment."""
    path = f"{manifests.deployments(namespace)}/web"
    cluster.create(
        manifests.deployments(namespace),
        manifests.deployment("web", 1)
        | {"metadata": {"name": "web", "annotations": {"autoscaler/paused": "true"}}},
    )
    with watching(api, [target(namespace, "web")]) as watched:
        for count in (2, 3, 4):
            scale = scale_of(watched, namespace, "web")
            assert isinstance(watched.write_scale(namespace, WEB, scale, count, soon()), Written)
            after = scale_of(watched, namespace, "web")
            assert (after.spec_replicas, after.annotations) == (count, PAUSED)
    assert cluster.get(path).body["spec"]["replicas"] == 4


def test_they_are_asked_for_while_the_first_list_is_not_there(watch: Watch) -> None:
    paused = deployment("7", 1)
    paused["metadata"]["annotations"] = {"autoscaler/paused": "true"}
    server, watched, _ = watch(
        Answer(fault="hang"), Answer(body=deployment("7", 1)), listed("7", paused), synced=False
    )
    eventually(lambda: server.count("list"), bool)
    assert watched.cached_scale("shop", WEB) is None
    scale = watched.read_scale("shop", WEB, soon())
    assert isinstance(scale, Scale)
    assert scale.annotations == PAUSED


def test_nothing_is_decided_while_they_cannot_be_read(script: Script) -> None:
    """A server that answers for the scale and not for them leaves a pause unknown."""
    server, api = script(Answer(body=deployment("7", 1)), Answer(body={"items": [{}]}))
    scale = UncachedCluster(api).read_scale("shop", WEB, clock.monotonic() + 1)
    assert scale == Unavailable(f"the API server {api.server} sent no list of deployments")
    assert server.count("list") == 2


def test_without_the_right_to_list_there_are_none(
    lone_cluster: ClusterUnderTest, limited: Api, shop: str
) -> None:
    """A daemon asks once for its watch and not for each scale; a plan says so once."""
    lone_cluster.patch(
        f"{manifests.deployments(shop)}/web", _annotated({"autoscaler/paused": "true"})
    )
    grant(lone_cluster, shop, "scales", READ_SCALES)
    await_granted(limited, f"{manifests.deployments(shop)}/web/scale")
    with watching(limited, [target(shop, "web")]) as watched:
        scale = watched.read_scale(shop, WEB, soon())
        assert isinstance(scale, Scale)
        assert scale.annotations == ()
    notes: list[str] = []
    plan = UncachedCluster(limited, observer=Noting(notes))
    for _ in range(2):
        assert plan.read_scale(shop, WEB, soon()) == scale
    (note,) = notes
    assert note == (
        "it is not known whether annotations pause a target: "
        'deployments.apps "web" is forbidden: User "limited" cannot list resource '
        f'"deployments" in API group "apps" in the namespace "{shop}"'
    )


def test_little_is_kept_of_large_ones() -> None:
    """An object has up to 256 KiB of them, and whoever may write them need not be trusted."""
    hostile = {f"autoscaler/{'k' * 50}{n}": "a\n\x1b[2J" + "x" * 250_000 for n in range(1000)}
    kept = annotations_of({"annotations": hostile})
    assert len(kept) == 16
    assert all(len(value) == 100 and value.startswith(r"a \x1b[2Jxx") for _, value in kept)
    assert annotations_of({"annotations": None}) == annotations_of({}) == ()
