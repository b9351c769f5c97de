"""Pods: read from JSON, finished ones left out, and selected by their labels."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler import clock
from autoscaler.core.observation import ContainerRequests, Pod, PodRequests
from autoscaler.core.selectors import parse
from autoscaler.core.spec import ConditionStatus
from autoscaler.kubernetes import list_pods
from autoscaler.kubernetes.api import MALFORMED, JsonObject
from autoscaler.kubernetes.discovery import selector_text
from autoscaler.kubernetes.pods import PodCache, SelectorIndex, read_pod, unix_seconds
from tests.worlds.cluster.connecting import connect
from tests.worlds.prometheus.faults import ScriptedServer, answer


def whole_pod(name: str) -> JsonObject:
    return {
        "metadata": {"name": name},
        "spec": {
            "resources": {"requests": {"cpu": "2"}},
            "initContainers": [
                {
                    "name": "sidecar",
                    "restartPolicy": "Always",
                    "resources": {"requests": {"cpu": "10m"}},
                },
                {"name": "setup"},
            ],
            "containers": [
                {"name": "main", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}},
                {"name": "plain", "resources": {}},
            ],
        },
        "status": {
            "phase": "Running",
            "startTime": "2024-01-02T03:04:05Z",
            "conditions": [
                {"type": "Initialized", "status": "True"},
                {"type": "Ready", "status": "False", "lastTransitionTime": "2024-01-02T03:04:06Z"},
            ],
        },
    }


def test_all_fields_for_decisions_are_read() -> None:
    assert read_pod(whole_pod("p")) == Pod(
        name="p",
        phase="Running",
        ready=ConditionStatus.FALSE,
        ready_transition=1704164646.0,
        start_time=1704164645.0,
        deleted=False,
        requests=PodRequests(
            containers=(
                ContainerRequests("main", {"cpu": 500_000_000, "memory": 2**30 * 10**9}),
                ContainerRequests("plain", {}),
            ),
            init_containers=(
                ContainerRequests("sidecar", {"cpu": 10_000_000}, restartable=True),
                ContainerRequests("setup", {}),
            ),
            pod_level={"cpu": 2 * 10**9},
        ),
    )


def test_a_pod_without_status_has_no_phase_or_times() -> None:
    pod = read_pod({"metadata": {"name": "p", "deletionTimestamp": "x"}})
    assert (pod.phase, pod.ready, pod.ready_transition, pod.start_time) == ("", None, None, None)
    assert pod.deleted
    assert pod.requests == PodRequests(())


def test_pods_of_one_template_share_their_requests() -> None:
    first, second, other = whole_pod("a"), whole_pod("b"), whole_pod("c")
    other["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "501m"
    assert read_pod(first).requests is read_pod(second).requests
    assert read_pod(other).requests != read_pod(first).requests


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2024-01-02T03:04:05Z", 1704164645.0),
        ("2024-01-02T03:04:05.250000Z", 1704164645.25),
        ("2024-01-02T05:04:05+02:00", 1704164645.0),
    ],
)
def test_times_are_read(text: str, seconds: float) -> None:
    assert unix_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "yesterday", "2024-01-02T03:04:05"])
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"time|isoformat"):
        unix_seconds(text)


@pytest.mark.parametrize(
    "pod",
    [
        {},
        {"metadata": {}},
        {"metadata": {"name": "p"}, "spec": {"containers": [{}]}},
        {"metadata": {"name": "p"}, "status": {"conditions": [{"type": "Ready", "status": "Yes"}]}},
        {
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1.5Gb"}}}]},
        },
    ],
)
def test_a_malformed_pod_raises_the_declared_errors(pod: JsonObject) -> None:
    with pytest.raises(MALFORMED):
        read_pod(pod)


# -- those in a terminal phase, which count nowhere (semantics 6.19) -------------------------------

COUNTED = ("Pending", "Running", "Unknown")
FINISHED = ("Succeeded", "Failed")


def pod(name: str, phase: object) -> JsonObject:
    return {
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "app"}]},
        "status": {"phase": phase},
    }


PODS = [pod(phase.lower(), phase) for phase in (*COUNTED, *FINISHED)]
NAMES = sorted(phase.lower() for phase in COUNTED)


def watched(pods: Iterable[JsonObject]) -> PodCache:
    cache = PodCache("shop", lambda: {"shop": frozenset({"app=web"})}, lambda _: None)
    cache.begin()
    cache.add(list(pods))
    cache.commit("1")
    return cache


def names(cache: PodCache) -> list[str] | None:
    found = cache.pods("shop", "app=web")
    return None if found is None else [pod.name for pod in found]


def test_a_list_has_no_finished_pods(tmp_path: Path) -> None:
    listed = {"metadata": {"resourceVersion": "5"}, "items": PODS}
    with (
        ScriptedServer(answer(listed)) as server,
        connect(server.write_kubeconfig(tmp_path / "kubeconfig")) as api,
    ):
        found = list_pods(api, "shop", "app=web", clock.monotonic() + 20)
    assert isinstance(found, tuple), found
    assert sorted(pod.name for pod in found) == NAMES


def test_a_watch_has_no_finished_pods() -> None:
    cache = watched(PODS)
    assert names(cache) == NAMES
    assert cache._namespaces["shop"].matched.keys() == set(NAMES)


@pytest.mark.parametrize("phase", FINISHED)
def test_a_pod_that_finishes_leaves(phase: str) -> None:
    cache = watched([pod("a", "Running"), pod("b", "Running")])
    assert names(cache) == ["a", "b"]
    cache.apply("MODIFIED", pod("b", phase), "2")
    assert names(cache) == ["a"]
    cache.apply("MODIFIED", pod("b", phase), "3")
    cache.apply("DELETED", pod("b", phase), "4")
    assert names(cache) == ["a"]
    cache.apply("ADDED", pod("b", "Pending"), "5")
    assert names(cache) == ["a", "b"]


def test_a_pod_that_cannot_be_read_is_still_reported() -> None:
    """It may count, so the pods are listed directly, which reports the fault."""
    broken = pod("b", "Succeeded")
    broken["metadata"]["labels"] = {"app": "web"}
    broken["status"]["startTime"] = "yesterday"
    assert names(watched([pod("a", "Running"), broken])) is None


# -- selectors -------------------------------------------------------------------------------------

_KEYS = st.sampled_from(["app", "tier", "zone", "x.example.com/y"])
_VALUES = st.sampled_from(["", "a", "b", "c"])
_TERMS = st.one_of(
    st.builds("{}={}".format, _KEYS, _VALUES),
    st.builds("{}!={}".format, _KEYS, _VALUES),
    st.builds("{} in ({})".format, _KEYS, st.lists(_VALUES, min_size=1).map(",".join)),
    st.builds("{} notin ({})".format, _KEYS, st.lists(_VALUES, min_size=1).map(",".join)),
    _KEYS,
    st.builds("!{}".format, _KEYS),
)
_SELECTORS = st.lists(_TERMS, min_size=1, max_size=4).map(",".join)


@given(
    st.lists(_SELECTORS, max_size=12),
    st.lists(st.dictionaries(_KEYS, _VALUES), min_size=1, max_size=8),
)
def test_the_index_finds_what_trying_each_selector_finds(
    selectors: list[str], pods: list[dict[str, str]]
) -> None:
    index = SelectorIndex(selectors)
    for labels in pods:
        found = index.matching(labels)
        assert len(found) == len(set(found))
        assert set(found) == {selector for selector in selectors if parse(selector).matches(labels)}


def test_a_pod_is_tried_against_few_selectors() -> None:
    index = SelectorIndex(f"env=prod,app=app-{number}" for number in range(1000))
    labels = {"app": "app-7", "env": "prod", "pod-template-hash": "x"}
    assert len(list(index._candidates(labels))) == 1
    assert index.matching(labels) == ("env=prod,app=app-7",)


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (None, ""),
        ({}, ""),
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        ({"matchLabels": None}, ""),  # of a ReplicationController without a selector
        ({"matchLabels": {"a": ""}}, "a="),
        (
            {
                "matchLabels": {"m": "1"},
                "matchExpressions": [
                    {"key": "z", "operator": "In", "values": ["y", "x"]},
                    {"key": "n", "operator": "NotIn", "values": ["q"]},
                    {"key": "e", "operator": "Exists"},
                    {"key": "d", "operator": "DoesNotExist"},
                ],
            },
            "!d,e,m=1,n notin (q),z in (x,y)",
        ),
    ],
)
def test_a_selector_is_printed_as_go_prints_it(selector: JsonObject, text: str) -> None:
    assert selector_text(selector) == text


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(ValueError, match="Gt"):
        selector_text({"matchExpressions": [{"key": "a", "operator": "Gt"}]})
