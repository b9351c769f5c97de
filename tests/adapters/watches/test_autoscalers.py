"""The HorizontalPodAutoscaler in control of an object is cached, and a fault never removes it."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from autoscaler import clock
from autoscaler.core.observation import ReadFailure, Scale, UncheckedControl
from autoscaler.kubernetes import Api
from autoscaler.kubernetes.autoscalers import AutoscalerCache, ListedAutoscalers
from tests.adapters.watches.targets import (
    BROKEN,
    FORBIDDEN,
    REFUSED_WORDS,
    SLOW,
    WEB,
    Watch,
    deployment_ref,
    target,
    watching,
)
from tests.narrowing import assert_parts, instance
from tests.worlds.cluster import manifests
from tests.worlds.cluster.cluster import ClusterUnderTest, Noting, eventually
from tests.worlds.cluster.others import HAND_MADE, autoscaler, await_controller, create, path_of
from tests.worlds.cluster.roles import AUTOSCALERS, WATCH, await_granted, grant
from tests.worlds.cluster.scripted import Answer, failure
from tests.worlds.cluster.watch_script import Script, event, gone, listed
from tests.worlds.controlplane.api import Json

HPAS = "HorizontalPodAutoscaler.autoscaling"
KEDA_MADE = 'HorizontalPodAutoscaler "keda-hpa-web" of ScaledObject "web"'


def keda_made(*, by: str) -> Json:
    made = autoscaler("keda-hpa-web")
    if by == "label":
        made["metadata"]["labels"] = {"scaledobject.keda.sh/name": "web"}
        return made
    owner = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "web", "uid": "1-2"}
    made["metadata"]["ownerReferences"] = [owner]
    return made


def test_names_of_others_are_short_and_printable() -> None:
    cache = AutoscalerCache("shop")
    made = autoscaler("web")
    made["metadata"] |= {
        "namespace": "shop",
        "labels": {"scaledobject.keda.sh/name": "a\x1b\n" * 500},
    }
    cache.apply("ADDED", made, "1")
    words = cache.controller("shop", WEB) or ""
    assert words.startswith(r'HorizontalPodAutoscaler "web" of ScaledObject "a\x1b a\x1b')
    assert words.isprintable()
    assert len(words) < 320


def test_controllers_that_are_created_moved_and_deleted_are_followed(
    cluster: ClusterUnderTest, api: Api, namespace: str
) -> None:
    cluster.create(manifests.deployments(namespace), manifests.deployment("web"))
    with watching(api, [target(namespace, "web")]) as watched:
        assert watched.cached_controller(namespace, WEB) is None
        create(cluster, namespace, autoscaler("by-hand"))
        await_controller(watched, namespace, WEB, HAND_MADE)
        assert watched.cached_controller("elsewhere", WEB) is None
        moved = {"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "name": "api"}}}
        assert cluster.patch(f"{path_of(namespace)}/by-hand", moved).status == 200
        await_controller(watched, namespace, WEB, None)
        assert watched.cached_controller(namespace, deployment_ref("api")) == HAND_MADE
        cluster.request("DELETE", f"{path_of(namespace)}/by-hand")
        await_controller(watched, namespace, deployment_ref("api"), None)


@pytest.mark.parametrize("by", ["owner", "label"])
def test_the_first_sync_knows_the_scaled_object_of_a_controller(
    cluster: ClusterUnderTest, api: Api, namespace: str, by: str
) -> None:
    create(cluster, namespace, keda_made(by=by))
    with watching(api, [target(namespace, "web")]) as watched:
        assert watched.cached_controller(namespace, WEB) == KEDA_MADE


@pytest.mark.parametrize(
    ("version", "kind", "of", "controlled"),
    [
        ("apps/v1", "Deployment", "web", True),
        ("apps/v1beta1", "Deployment", "web", True),
        ("apps/v1", "StatefulSet", "web", False),
        ("example.com/v1", "Deployment", "web", False),
        ("v1", "Deployment", "web", False),
        ("apps/v1", "Deployment", "api", False),
    ],
)
def test_a_controller_matches_by_group_kind_and_name(
    watch: Watch, version: str, kind: str, of: str, *, controlled: bool
) -> None:
    """The version does not matter, as for the HorizontalPodAutoscaler itself."""
    _, watched, _ = watch(autoscalers=[listed("9", autoscaler("by-hand", kind, of, version))])
    seen = watched.cached_controller("shop", WEB)
    assert seen == (HAND_MADE if controlled else None)


def test_thirty_thousand_hpas_of_one_object_are_indexed_fast() -> None:
    cache = AutoscalerCache("shop")
    cache.begin()
    cache.add([autoscaler(f"hpa-{number:05}", "Deployment", "web") for number in range(30_000)])
    begun = time.process_time()
    cache.commit("9")
    assert time.process_time() - begun < 1.5
    assert cache.controller("shop", WEB) == 'HorizontalPodAutoscaler "hpa-00000"'
    cache.apply("DELETED", autoscaler("hpa-00000", "Deployment", "web"), "10")
    assert cache.controller("shop", WEB) == 'HorizontalPodAutoscaler "hpa-00001"'


def test_nothing_is_decided_before_the_controllers_are_listed(watch: Watch) -> None:
    pace = replace(SLOW, trusted=60.0)
    server, watched, _ = watch(pace=pace, synced=False, autoscalers=[BROKEN])
    eventually(lambda: server.count("watch"), bool)
    eventually(lambda: watched._autoscaler_watches.watches()[0].reason, bool)
    assert not watched.wait_synced(clock.monotonic() + 0.2)
    seen = instance(ReadFailure, watched.cached_scale("shop", WEB))
    assert_parts(seen, f"{HPAS} in", '"shop"', server.url, "500 (InternalError)", "no leader")
    server.autoscalers.lists = deque([listed("9", autoscaler("by-hand"))])
    assert watched.wait_synced(clock.monotonic() + 20)
    assert isinstance(watched.cached_scale("shop", WEB), Scale)
    assert watched.cached_controller("shop", WEB) == HAND_MADE


@pytest.mark.parametrize("fault", [BROKEN, FORBIDDEN])
def test_the_last_controllers_apply_while_the_watch_is_broken(watch: Watch, fault: Answer) -> None:
    pace = replace(
        SLOW, trusted=0.2, longest_pause=0.1, refused_pause=0.3, refusal_confirmed_after=0.0
    )
    server, watched, notes = watch(pace=pace, autoscalers=[listed("9", autoscaler("by-hand"))])
    eventually(lambda: server.autoscalers.count("watch"), bool)
    server.autoscalers.lists[0] = fault
    server.autoscalers.send(gone())
    eventually(lambda: server.autoscalers.count("list"), lambda count: count >= 4)
    refused = UncheckedControl(REFUSED_WORDS, known=HAND_MADE)
    seen = watched.cached_controller("shop", WEB)
    assert seen == (refused if fault is FORBIDDEN else HAND_MADE)
    assert isinstance(watched.cached_scale("shop", WEB), Scale)
    server.autoscalers.lists[0] = listed("11")
    await_controller(watched, "shop", WEB, None)
    refusals = [True, False] if fault is FORBIDDEN else []
    eventually(lambda: [REFUSED_WORDS in note for note in notes], refusals.__eq__)
    assert all(HPAS in note for note in notes)
    assert [note.startswith("good: ") for note in notes] == [not refused for refused in refusals]


@pytest.fixture
def shops(lone_cluster: ClusterUnderTest, two_namespaces: list[str]) -> list[str]:
    for shop in two_namespaces:
        create(lone_cluster, shop, autoscaler("by-hand"))
    return two_namespaces


def test_only_a_namespace_without_the_right_has_unchecked_controllers(
    lone_cluster: ClusterUnderTest, limited: Api, shops: list[str]
) -> None:
    for shop in shops:
        grant(lone_cluster, shop, "watch", WATCH)
    grant(lone_cluster, shops[0], "autoscalers", AUTOSCALERS)
    await_granted(limited, path_of(shops[0]))
    notes: list[str] = []
    with watching(limited, [target(shop, "web") for shop in shops], notes=notes) as watched:
        assert watched.cached_controller(shops[0], WEB) == HAND_MADE
        seen = instance(UncheckedControl, watched.cached_controller(shops[1], WEB))
        assert f'namespace "{shops[1]}"' in seen.message
        assert seen.known is None
        # Nothing waits for HPAs that may not be listed.
        missing = instance(ReadFailure, watched.cached_scale(shops[1], WEB))
        assert_parts(missing, 'deployments.apps "web"', f'"{shops[1]}"')
    of_all, of_shop = (note for note in notes if HPAS in note)
    assert shops[1] not in of_all
    assert_parts(of_shop, f'{HPAS} in namespace "{shops[1]}"')


def _plan(
    api: Api, namespaces: list[str]
) -> tuple[list[str | UncheckedControl | None], list[str], list[str]]:
    """Return the controllers, the notes of the observer, and what is forbidden."""
    notes: list[str] = []
    others = ListedAutoscalers(api, namespaces, Noting(notes))
    return [others.controller(namespace, WEB) for namespace in namespaces], notes, others.forbidden


def test_a_plan_lists_the_controllers_once(
    lone_cluster: ClusterUnderTest, lone_api: Api, limited: Api, shops: list[str]
) -> None:
    assert _plan(lone_api, shops) == ([HAND_MADE, HAND_MADE], [], [])
    grant(lone_cluster, shops[1], "autoscalers", AUTOSCALERS)
    await_granted(limited, path_of(shops[1]))
    (unchecked, controller), notes, (forbidden,) = _plan(limited, shops)
    assert notes == []
    assert controller == HAND_MADE
    message = instance(UncheckedControl, unchecked).message
    assert_parts(message, "horizontalpodautoscalers.autoscaling is forbidden", f'"{shops[0]}"')
    assert message in forbidden


def test_a_plan_asks_a_server_that_is_gone_only_once(script: Script) -> None:
    server, api = script(listed("7"))
    server.autoscalers.lists[0] = failure(503, "ServiceUnavailable", "starting")
    controllers, notes, _ = _plan(api, ["a", "b", "c"])
    assert [type(controller) for controller in controllers] == [UncheckedControl] * 3
    assert (len(notes), server.autoscalers.asked) == (1, ["list"])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_watch_that_ends_by_a_defect_begins_again(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    pace = replace(SLOW, longest_pause=0.2)
    server, watched, notes = watch(pace=pace, autoscalers=[listed("9", autoscaler("by-hand"))])
    (broken,) = watched._autoscaler_watches.watches()
    breaks = [True]

    def apply(original: Callable[..., None], *event: object) -> None:
        if breaks and breaks.pop():
            raise ZeroDivisionError
        original(*event)

    monkeypatch.setattr(broken.cache, "apply", partial(apply, broken.cache.apply))
    server.autoscalers.lists[0] = listed("11", autoscaler("by-hand"))
    server.autoscalers.send(event("DELETED", autoscaler("other")))
    eventually(lambda: notes, bool)
    faulty = instance(UncheckedControl, watched.cached_controller("shop", WEB))
    assert faulty.known == HAND_MADE
    eventually(lambda: server.autoscalers.count("list"), lambda count: count == 2)
    server.autoscalers.send(event("DELETED", autoscaler("by-hand")))
    await_controller(watched, "shop", WEB, None)
    broke, recovered = notes
    name = f'{HPAS} in namespace "shop"'
    assert_parts(broke, name, faulty.message)
    assert recovered.startswith(f"good: {name}")
    assert broken.alive
