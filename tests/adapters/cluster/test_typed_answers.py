"""Answers of an API server become typed values at once, or are refused as a whole."""

import json
import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.observation import ContainerRequests, Hpa, Pod, PodRequests, ReadFailure, Scale
from autoscaler.core.spec import SOURCES, ConditionStatus, ScaleTargetRef
from autoscaler.kubernetes import Api, Failure
from autoscaler.kubernetes.api import MALFORMED, read_list
from autoscaler.kubernetes.autoscalers import AutoscalerCache, hpa_of
from autoscaler.kubernetes.discovery import ScalableKinds, ScalableResource, read_paths, scale_of
from autoscaler.kubernetes.election import LeaseRecord
from autoscaler.kubernetes.failures import from_answer, typed
from autoscaler.kubernetes.leases import Lease, LeaseCache, Leases
from autoscaler.kubernetes.pods import PodCache, list_pods, read_pod
from autoscaler.kubernetes.rights import missing_rights
from autoscaler.kubernetes.scale_cache import ScaleCache
from autoscaler.kubernetes.scales import Scales
from autoscaler.transport.answers import MIB, Answer, AnswerMemory
from autoscaler.transport.redaction import Redactor
from tests.adapters.cluster.test_pods import whole_pod
from tests.adapters.watches.test_hpas import METRICS, decided, made
from tests.places import places

Json = dict[str, Any]

META: Json = {
    "name": "web",
    "namespace": "shop",
    "uid": "5c3a",
    "resourceVersion": "7",
    "generation": 3,
    "labels": {"app": "web"},
    "annotations": {"autoscaler/paused": "true", "other": "x"},
    "managedFields": [
        {
            "manager": "kubectl",
            "time": "2026-01-01T00:00:00Z",
            "fieldsV1": {"f:spec": {"f:replicas": {}}},
        }
    ],
}
SCALE: Json = {
    "metadata": META,
    "spec": {"replicas": 2},
    "status": {"replicas": 2, "selector": "app=web"},
}
DEPLOYMENT: Json = {
    "metadata": META,
    "spec": {
        "replicas": 2,
        "selector": {
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
        },
    },
    "status": {"replicas": 2},
}
POD: Json = whole_pod("web") | {"metadata": {**META, "deletionTimestamp": "2026-01-01T00:00:00Z"}}
RULES: Json = {
    "stabilizationWindowSeconds": 60,
    "selectPolicy": "Max",
    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}],
    "tolerance": "50m",
}
METRIC_JSON: list[Json] = [deepcopy(given) for given, _ in METRICS]
METRIC_JSON[-1]["external"]["metric"]["selector"]["matchExpressions"] = [
    {"key": "a", "operator": "In", "values": ["b"]}
]
CURRENT = {"averageUtilization": 80, "averageValue": "3", "value": "3"}
HPA: Json = made(
    decided(
        currentMetrics=[
            {"type": metric["type"], SOURCES[metric["type"]]: {"current": CURRENT}}
            for metric in METRIC_JSON
        ]
    ),
    metrics=METRIC_JSON,
    behavior={"scaleUp": RULES, "scaleDown": RULES},
) | {"metadata": {**META, "ownerReferences": [{"kind": "ScaledObject", "name": "web"}]}}
LEASE: Json = {
    "metadata": {**META, "annotations": {"autoscaler/url": "http://a", "autoscaler/leads": "1"}},
    "spec": {
        "holderIdentity": "a_1",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 1,
    },
}
DEFINITION: Json = {
    "spec": {
        "versions": [
            {
                "name": "v1",
                "subresources": {
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector",
                    }
                },
            }
        ]
    }
}
RESOURCES: Json = {
    "resources": [
        {"name": "rollouts", "kind": "Rollout", "namespaced": True},
        {"name": "rollouts/scale", "kind": "Scale", "group": "autoscaling", "version": "v1"},
    ]
}
GROUP: Json = {"versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}}
REVIEW: Json = {"status": {"allowed": True, "evaluationError": ""}}
STATUS: Json = {
    "kind": "Status",
    "message": "no",
    "reason": "NotFound",
    "details": {"name": "web", "causes": [{"reason": "x"}]},
}

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**4000, -1, 2**31, 1e300, math.inf, math.nan, "", "x" * 70_000])
    | st.sampled_from(["0", "True", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-01-01"])
    | st.floats()
    | st.text(max_size=5)
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


@st.composite
def hostile(draw: st.DrawFn, document: Json) -> Any:
    """Put anything in place of one or two values of a document."""
    changed: Any = deepcopy(document)
    for _ in range(draw(st.sampled_from([1, 1, 1, 2]))):
        inner: list[tuple[Any, ...]] = [place for place in places(changed) if place]
        *path, last = draw(st.sampled_from(inner or [(None,)]))
        if last is None:
            break
        inside = changed
        for step in path:
            inside = inside[step]
        inside[last] = draw(ANYTHING)
    return draw(st.just(changed) | st.just(changed) | st.just(changed) | ANYTHING)


def check(value: object, *kinds: type) -> None:
    """Check a value, which is of one of these dataclasses with typed fields, or None."""
    assert value is None or type(value) in kinds, value
    if value is not None:
        typed(value)


class AnswerPool:
    """Fits `Api`: each request has the answer that is next, the last one again and again."""

    def __init__(self, *answers: Any) -> None:
        self.server = "https://a"
        self.origin = "a"
        self.redactor = Redactor(())
        self._answers = [*answers]

    def get(self, *_: object, **__: object) -> Any:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return answer if isinstance(answer, dict) else Failure("no object")

    once = get

    @property
    def api(self) -> Api:
        return cast("Api", self)


def refused(read: Callable[[], object]) -> Any:
    """Return what is read; None where the whole object is refused."""
    try:
        return read()
    except MALFORMED:
        return None


Parse = Callable[[Any], None]


def pod(document: Any) -> None:
    check(refused(lambda: read_pod(document)), Pod)
    cache = PodCache("shop", lambda: {"shop": frozenset({"app=web"})}, lambda _: None)
    cache.begin()
    refused(lambda: cache.add([document]))
    cache.commit("1")
    for kind in ("MODIFIED", "DELETED"):
        pods = cache.pods("shop", "app=web") or ()
        assert [*map(typed, pods)] == [*pods]
        refused(lambda: cache.apply(kind, document, "2"))  # noqa: B023 - called at once
    listed = list_pods(AnswerPool({"items": [document], "metadata": {}}).api, "shop", "", 9e9)
    check(listed[0] if isinstance(listed, tuple) and listed else None, Pod)


def scale(document: Any) -> None:
    check(scale_of(document, "a"), Scale, Failure)


def workload(document: Any) -> None:
    ref = ScaleTargetRef("apps/v1", "Deployment", "web")
    for group, plural in (("apps", "deployments"), ("", "replicationcontrollers")):
        read = ScalableResource(group, "v1", plural).built_in
        assert read is not None
        check(refused(lambda: read(document, None)), Scale)  # noqa: B023 - called at once
    kinds = ScalableKinds(AnswerPool({}).api)
    cache = ScaleCache(AnswerPool({}).api, kinds, ref, "shop", lambda: frozenset({("shop", "web")}))
    cache.path(9e9)
    cache.begin()
    refused(lambda: cache.add([document]))
    cache.commit("1")
    for kind in ("MODIFIED", "DELETED"):
        check(cache.cached("shop", "web"), Scale, ReadFailure)
        refused(lambda: cache.apply(kind, document, "2"))  # noqa: B023 - called at once
    scales = Scales(AnswerPool(SCALE, {"items": [document]}).api)
    check(scales.read_annotated("shop", ref, 9e9), Scale, ReadFailure)


def custom(definition: Any, document: Any = DEPLOYMENT) -> None:
    resource = ScalableResource("argoproj.io", "v1", "rollouts")
    paths = read_paths(AnswerPool(definition).api, resource, 9e9)
    if not isinstance(paths, Failure):
        check(refused(lambda: paths.read(document, None)), Scale)
    assert definition is not DEFINITION or not isinstance(paths, Failure)


def custom_object(document: Any) -> None:
    custom(DEFINITION, document)


def autoscaler(document: Any) -> None:
    check(refused(lambda: hpa_of(document)), Hpa)
    cache = AutoscalerCache("shop", lambda _: True)
    ref = ScaleTargetRef("apps/v1", "Deployment", "web")
    cache.begin()
    refused(lambda: cache.add([document]))
    cache.commit("1")
    for event in ("MODIFIED", "DELETED"):
        assert isinstance(cache.controller("shop", ref), str | None)
        check(cache.hpa("shop", ref, 0.0), Hpa)
        refused(lambda: cache.apply(event, document, "2"))  # noqa: B023 - called at once


def lease(document: Any) -> None:
    seen: list[Lease | None] = []
    cache = LeaseCache("shop", "web", seen.append)
    refused(lambda: cache.add([document]))
    refused(lambda: cache.apply("MODIFIED", document, "2"))
    cache.commit("1")
    read = Leases(AnswerPool(document).api, "shop", "web").read(9e9)
    seen.append(None if isinstance(read, Failure) else read)
    for found in filter(None, seen):
        check(found.record, LeaseRecord)
        assert all(isinstance(text, str) for text in found.annotations.values())


def group(document: Any, resources: Any = RESOURCES) -> None:
    ref = ScaleTargetRef("argoproj.io/v1", "Rollout", "web")
    kinds = ScalableKinds(AnswerPool(document, resources).api)
    check(kinds.find(ref, 9e9), ScalableResource, Failure)


def resources(document: Any) -> None:
    group(GROUP, document)


def review(document: Any) -> None:
    missing_rights(AnswerPool(document).api, [], None, events=True, deadline=9e9)


def failure(document: Any) -> None:
    answer = Answer(AnswerMemory(MIB, MIB), 0.0, 0.0)
    answer.body = json.dumps(document).encode()
    for status in (404, 409, 500):
        answer.status = status
        check(from_answer(answer, "a", "b"), Failure)


def page(document: Any) -> None:
    taken: list[Any] = []
    api = AnswerPool(document, {"items": [], "metadata": {"resourceVersion": "1"}})
    version = refused(lambda: read_list(lambda _: api.get(), taken.extend, {}, 1))
    assert version is None or isinstance(version, Failure | str)


PAGE: Json = {
    "metadata": {"continue": "x", "resourceVersion": "1", "remainingItemCount": 1},
    "items": [{}],
}


@dataclass(frozen=True)
class Row:
    document: Json
    parse: Parse


ROWS = [
    *(Row(POD, pod), Row(SCALE, scale), Row(DEPLOYMENT, workload), Row(DEFINITION, custom)),
    *(Row(DEPLOYMENT, custom_object), Row(HPA, autoscaler), Row(LEASE, lease), Row(GROUP, group)),
    *(Row(RESOURCES, resources), Row(REVIEW, review), Row(STATUS, failure), Row(PAGE, page)),
]


@pytest.mark.parametrize("row", ROWS, ids=[row.parse.__name__ for row in ROWS])
def test_any_json_in_an_answer_becomes_typed_or_is_refused(row: Row) -> None:
    row.parse(row.document)

    @settings(max_examples=100, deadline=None)
    @given(hostile(row.document))
    def holds(document: Any) -> None:
        row.parse(document)

    holds()


POD_OF_TWO = PodRequests((ContainerRequests("a", {"cpu": 1}), ContainerRequests("b", {})))
TYPED = Pod("web", "Running", ConditionStatus.TRUE, 1.0, None, deleted=False, requests=POD_OF_TWO)
NAMES: list[Any] = [None, 5, b"web", ["web"], {}, "x" * 65_537]
AMOUNTS: list[Any] = ["1", True, 10**29, {5: 1}]
UNTYPED: list[dict[str, Any]] = [
    *({"name": name} for name in NAMES),
    *({"phase": True}, {"ready": "True"}, {"ready": ConditionStatus}, {"deleted": 0}),
    *({"start_time": time} for time in ("1", math.nan, math.inf, True, 10**400)),
    *({"requests": requests} for requests in (None, (), PodRequests(cast("Any", [])))),
    *({"requests": PodRequests((ContainerRequests("a", {"cpu": amount}),))} for amount in AMOUNTS),
]


@pytest.mark.parametrize("change", UNTYPED, ids=map(repr, range(len(UNTYPED))))
def test_a_value_of_another_type_is_refused(change: dict[str, Any]) -> None:
    assert typed(TYPED) is TYPED
    with pytest.raises(ValueError, match=r"\bPod\b"):
        typed(replace(TYPED, **change))


@pytest.mark.parametrize(
    "name", ["../..", "a/b", "..", "", "A", "a.b", "x" * 64, "a b", "a%2fb", "a?b", "\u0131"]
)
def test_no_name_of_a_server_leads_a_path_elsewhere(name: str) -> None:
    """The versions and the resources that it names are parts of the paths of later requests."""
    ref = ScaleTargetRef("argoproj.io/v1", "Rollout", "web")
    named = json.loads(json.dumps(RESOURCES).replace("rollouts", name))
    versions = {"versions": [{"version": name}], "preferredVersion": {"version": name}}
    for answers in ((GROUP, named), (versions, RESOURCES)):
        assert isinstance(ScalableKinds(AnswerPool(*answers).api).find(ref, 9e9), Failure)
