"""What a rule of prometheus-adapter becomes here reads the numbers that the adapter serves."""

import json
import os
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from autoscaler.config import load
from autoscaler.core.observation import Pod, PodRequests, PodSamples, Values
from autoscaler.core.readings import read
from autoscaler.migrate.adapter_queries import DescribedObject, MetricType, ResolvedQuery, resolve
from autoscaler.migrate.adapter_rules import AdapterRules, rules_in
from autoscaler.migrate.fields import Fields
from tests.adapters.prometheus.reading import answered, ask
from tests.narrowing import known
from tests.worlds.controlplane.api import Api
from tests.worlds.controlplane.fixtures import if_available
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.controlplane.workloads import pod_template
from tests.worlds.prometheus.exporter import series_of
from tests.worlds.prometheus.past import write_samples
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.prometheus_adapter.adapter import ADAPTER_MODULE, ALONE, PrometheusAdapter

# The adapter is built where it is not there yet, which takes minutes.
pytestmark = pytest.mark.timeout(1200)

PODS = ("web-1", "web-2", "web-3")
ELSEWHERE = "elsewhere"
STEP, AROUND = 5, 900
"""Seconds between two samples, and how far they reach before and after the start of the test."""


@dataclass(frozen=True)
class Case:
    """A rule, and a metric of an HPA that it gives; ``NS`` in it is the HPA's namespace."""

    name: str
    rule: Mapping[str, Any]
    kind: MetricType = "Pods"
    selector: Mapping[str, Any] | None = None
    described: DescribedObject | None = None
    shared: bool = True
    """Whether the query serves the HPAs of all namespaces."""


BY_POD = {"overrides": {"namespace": {"resource": "namespace"}, "pod": {"resource": "pod"}}}
USUAL: dict[str, object] = {
    "seriesQuery": "http_requests_total",
    "metricsQuery": "sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)",
}
DESCRIBED = {
    "front": DescribedObject("", "Service", "front"),
    "web": DescribedObject("apps", "Deployment", "web"),
    "edge": DescribedObject("networking.k8s.io", "Ingress", "edge"),
    "namespace": DescribedObject("", "Namespace", "NS"),
}
OF_PODS = r"""
requests_per_second:
  seriesQuery: 'http_requests_total{namespace!="",pod!=""}'
  name: {matches: "^http_(.*)_total", as: "${1}_per_second"}
good_requests:
  metricsQuery: |
    sum by (<<.GroupBy>>) (
      irate(<<.Series>>{<<.LabelMatchers>>, code="200"}[1m])  # not the others
    )
requests_by_path: {selector: {matchLabels: {path: a}}}
requests_by_paths:
  selector: {matchExpressions: [{key: path, operator: In, values: [b, a]}]}
  shared: false
requests_without_b:
  selector:
    matchExpressions:
    - {key: path, operator: NotIn, values: [b]}
    - {key: code, operator: Exists}
    - {key: canary, operator: DoesNotExist}
  shared: false
error_ratio:
  metricsQuery: >-
    sum(rate(<<.Series>>{<<.LabelMatchers>>,code="500"}[2m])) by (<<.GroupBy>>)
    / sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>) * 100
latency_p90:
  seriesQuery: '{__name__="latency_seconds_bucket"}'
  name: {matches: "^(.*)_seconds_bucket$", as: "${1}_p90"}
  metricsQuery: |
    histogram_quantile(0.9,
      sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>, le))
idle_quantile:
  seriesQuery: 'rpc_seconds{quantile="0.9"}'
  metricsQuery: 'max(<<.Series>>{<<.LabelMatchers>>,quantile="0.9"}) by (<<.GroupBy>>)'
pod_threads:
  seriesQuery: '{__name__=~"^pod_.*",namespace!=""}'
  name: {matches: "^(.*)$", as: ""}
  metricsQuery: <<.Series>>{<<.LabelMatchers>>}
legacy_per_second:
  seriesQuery: legacy_total
  resources:
    overrides:
      kubernetes_namespace: {resource: namespace}
      kubernetes_pod_name: {resource: pods}
  name: {matches: "(?P<what>.*)_total", as: "${what}_per_second"}
values_by_name:
  seriesQuery: pod_threads
  metricsQuery: >-
    max(<<.Series>>{namespace="<<index .LabelValuesByName "namespace">>",
    pod=~"<<.LabelValuesByName.pod>>"}) by (<<.GroupBy>>)
  shared: false
twice_the_threads:
  seriesQuery: '{__name__=~"^pod_threads$"}'
  resources: {template: "<<.Resource>>"}
  metricsQuery: '<< .GroupBy >>_threads{<< .LabelMatchers >>} * 2'
without_matchers:
  seriesQuery: only_here
  metricsQuery: sum(<<.Series>>) by (<<.GroupBy>>) + 1
with_a_default:
  seriesQuery: pod_threads
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>) or vector(7)
  shared: false
joined:
  seriesQuery: pod_threads
  metricsQuery: >-
    sum(rate(http_requests_total{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)
    / on (<<.GroupBy>>) sum(pod_threads{<<.LabelMatchers>>}) by (<<.GroupBy>>)
"""
OF_OBJECTS = """
service_requests:
  of: front
  seriesQuery: '{__name__=~"http_requests.*"}'
  seriesFilters: [{is: "_total$"}, {isNot: "^grpc"}]
  name: {matches: "http_(requests)_total", as: "service_$1"}
ingress_requests: {of: edge, selector: {matchLabels: {code: "500", path: b}}}
exported_jobs:
  of: front
  seriesQuery: 'jobs_waiting{exported_namespace!=""}'
  resources:
    overrides:
      exported_namespace: {resource: namespace}
      exported_service: {resource: service}
  metricsQuery: avg by (exported_namespace, exported_service) (max_over_time(<<.Series>>[1m]))
exported_rate:
  of: front
  seriesQuery: jobs_waiting
  resources:
    overrides:
      exported_namespace: {resource: namespace}
      exported_service: {group: "", resource: services}
  metricsQuery: max(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>) * 3
grouped_deployment:
  of: web
  seriesQuery: group_hits
  resources:
    template: "kube_<<.Group>>_<<.Resource>>"
    overrides: {namespace: {resource: namespace}}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
backlog:
  of: web
  seriesQuery: backlog
  name:
  resources:
    overrides:
      namespace: {resource: namespace}
      deployment: {group: apps, resource: deployment}
  metricsQuery: max(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
namespace_requests: {of: namespace}
worst_paths:
  of: front
  metricsQuery: >-
    max(sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>, path))
    by (<<.GroupBy>>)
  selector: {matchExpressions: [{key: path, operator: In, values: [a]}]}
  shared: false
"""
OF_NOTHING = """
queue_depth:
  seriesQuery: '{__name__="queue_depth",queue!=""}'
  name:
  resources: {overrides: {namespace: {resource: namespace}}}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (queue)
  selector: {matchLabels: {queue: orders}}
all_queues:
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
queues_anywhere:
  resources: {namespaced: false}
  metricsQuery: max(<<.Series>>{<<.LabelMatchers>>}) by (queue)
  selector: {matchLabels: {queue: orders, namespace: elsewhere}}
two_queues:
  metricsQuery: max(<<.Series>>{<<.LabelMatchers>>}) by (broker)
  selector: {matchExpressions: [{key: queue, operator: In, values: [orders, mails]}]}
  shared: false
constant:
  metricsQuery: 'scalar(sum(queue_depth{queue="orders"}))'
  selector: {matchLabels: {queue: mails}}
each_queue:
  seriesQuery: 'queue_depth{queue!=""}'
  name: {matches: "^queue_(.*)$", as: "each_queue"}
  resources: {overrides: {namespace: {resource: namespace}}}
  metricsQuery: <<.Series>>{<<.LabelMatchers>>}
  selector: {matchLabels: {broker: one}}
queue_or_nothing:
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) or vector(0)
  resources: {overrides: {namespace: {resource: namespace}}}
  selector: {matchLabels: {queue: none}}
  shared: false
"""


def cases(kind: MetricType, text: str, **usual: object) -> Iterator[Case]:
    """Yield the rules of a text, each with what is usual and not written, and what asks for it."""
    for name, given in yaml.safe_load(text).items():
        written = {**USUAL, "name": {"as": name}, **usual, **given}
        selector, shared = written.pop("selector", None), written.pop("shared", True)
        described = DESCRIBED.get(written.pop("of", ""))
        rule = {key: value for key, value in written.items() if value is not None}
        yield Case(name, rule, kind, selector, described, shared)


BY_NAME = {"template": "<<.Resource>>"}
CASES = [
    *cases("Pods", OF_PODS, resources=BY_POD),
    *cases("Object", OF_OBJECTS, resources=BY_NAME),
    *cases("External", OF_NOTHING, seriesQuery="queue_depth", resources=BY_NAME),
]
"""Thirty; those of External metrics are `externalRules`."""


def past_and_future(namespace: str, now: float) -> Iterator[str]:
    """Yield samples whose rates and values are the same at each instant around ``now``."""
    slopes: dict[str, float] = {}
    gauges: dict[str, float] = {}
    for number, of in enumerate((namespace, ELSEWHERE)):
        own = {"namespace": of, "service": "front", "ingress": "edge"}
        for index, pod in enumerate(PODS, 1 + 10 * number):
            by_pod = {**own, "pod": pod}
            for step, (path, code) in enumerate((("a", "200"), ("b", "200"), ("b", "500"))):
                labels = {**by_pod, "path": path, "code": code}
                slopes[series_of("http_requests_total", labels)] = index + step * 0.2
            for le, share in (("0.1", 1.0), ("0.5", 3.0), ("+Inf", 4.0)):
                bucket = series_of("latency_seconds_bucket", {**by_pod, "le": le})
                slopes[bucket] = share * index * 0.2
            legacy = {"kubernetes_namespace": of, "kubernetes_pod_name": pod}
            slopes[series_of("legacy_total", legacy)] = index
            gauges[series_of("pod_threads", by_pod)] = 4 * index
            nan = float("nan") if pod == "web-1" else index / 8
            gauges[series_of("rpc_seconds", {**by_pod, "quantile": "0.9"})] = nan
        for index, queue in enumerate(("orders", "mails"), 1 + 10 * number):
            labels = {"namespace": of, "queue": queue, "broker": "one"}
            gauges[series_of("queue_depth", labels)] = 100 * index
            service = ("front", "back")[number]  # of two of one name the adapter takes any
            labels = {"exported_namespace": of, "exported_service": service, "queue": queue}
            gauges[series_of("jobs_waiting", labels)] = 3 * index
        hits = {"namespace": of, "kube_apps_deployment": "web"}
        gauges[series_of("group_hits", hits)] = 21 + number
        gauges[series_of("backlog", {"namespace": of, "deployment": "web"})] = 17 + number
    for index, pod in enumerate(PODS, 1):
        gauges[series_of("only_here", {"namespace": namespace, "pod": pod})] = index
    for number in range(2 * AROUND // STEP):
        at = now - AROUND + number * STEP
        for series, slope in slopes.items():
            yield f"{series} {slope * STEP * number!r} {at:.3f}\n"
        for series, value in gauges.items():
            yield f"{series} {value!r} {at:.3f}\n"


@dataclass
class World:
    """What the tests ask: a Prometheus, the adapter, and the rules that it has."""

    namespace: str
    prometheus: str
    adapter: PrometheusAdapter
    token: str
    rules: AdapterRules

    def served(self, path: str, **parameters: str) -> list[Any]:
        """Return the items that the adapter answers with."""
        query = urllib.parse.urlencode({key: value for key, value in parameters.items() if value})
        with urllib3.PoolManager(ca_certs=str(self.adapter.ca_file)) as pool:
            answer = pool.request(
                "GET",
                f"{self.adapter.url}/apis/{path}?{query}",
                headers={"Authorization": f"Bearer {self.token}"},
                retries=False,
                timeout=10,
            )
        assert answer.status == 200, answer.data.decode()[:500]
        return list(answer.json()["items"])

    def find_series(self, selector: str) -> list[Mapping[str, str]]:
        """Return the labels of the series that Prometheus knows."""
        begin = time.time() - AROUND
        query = urllib.parse.urlencode({"match[]": selector, "start": begin})
        with urllib.request.urlopen(f"{self.prometheus}/api/v1/series?{query}") as answer:  # noqa: S310
            return list(json.load(answer)["data"])


@pytest.fixture(scope="module")
def world(
    control_plane: ControlPlane, admin_api: Api, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """Give all of it, with 30 rules and three pods."""
    if not ADAPTER_MODULE.cached() and "CI" not in os.environ:
        pytest.skip("prometheus-adapter is not built; `python -m benchmarks.ramp` builds it")
    folder, namespace = tmp_path_factory.mktemp("adapter"), "adapter-exactness"
    admin_api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    for pod in PODS:
        template = pod_template("web")
        template["metadata"]["name"] = pod
        admin_api.create(f"/api/v1/namespaces/{namespace}/pods", template)
    write_samples(folder / "prometheus", past_and_future(namespace, time.time()))
    written = {
        key: [item.rule for item in CASES if (item.kind == "External") is external]
        for key, external in (("rules", False), ("externalRules", True))
    }
    rules = known(rules_in(Fields(written)))
    assert not rules.problems
    with if_available(), PrometheusServer(folder / "prometheus").start() as prometheus:
        adapter = PrometheusAdapter(folder, control_plane, prometheus.url, written, ALONE)
        made = World(namespace, prometheus.url, adapter, control_plane.admin_token, rules)
        with adapter.start(lambda: _serves(made)):
            yield made
    admin_api.delete(f"/api/v1/namespaces/{namespace}")


def _serves(world: World) -> bool:
    try:
        external = world.served(
            f"external.metrics.k8s.io/v1beta1/namespaces/{world.namespace}/constant"
        )
        custom = world.served(
            f"custom.metrics.k8s.io/v1beta1/namespaces/{world.namespace}/pods/*/pod_threads"
        )
    except (urllib3.exceptions.HTTPError, AssertionError):
        return False
    return bool(external) and bool(custom)


def milli(quantity: str) -> int:
    """Return a quantity of the adapter in milli-units, which it writes with m, k or nothing."""
    number = quantity.rstrip("mk")
    return int(number) * {"m": 1, "k": 1_000_000}.get(quantity[len(number) :], 1000)


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """Write a LabelSelector as the HPA sends it."""
    terms = [f"{key}={value}" for key, value in (selector or {}).get("matchLabels", {}).items()]
    for item in (selector or {}).get("matchExpressions", []):
        words = {"In": "in", "NotIn": "notin"}
        if item["operator"] in words:
            terms.append(f"{item['key']} {words[item['operator']]} ({','.join(item['values'])})")
        else:
            terms.append(("!" if item["operator"] == "DoesNotExist" else "") + item["key"])
    return ",".join(terms)


def theirs(world: World, case: Case) -> dict[str, int]:
    """Return what the HPA reads from the adapter, in milli-units by pod, or under an empty name."""
    selector = selector_text(case.selector)
    of_namespace = f"v1beta1/namespaces/{world.namespace}"
    if case.kind == "External":
        path = f"external.metrics.k8s.io/{of_namespace}/{case.name}"
        items = world.served(path, labelSelector=selector)
        assert items
        return {"": sum(milli(document["value"]) for document in items)}
    what, labels = "pods/*", "app=web"
    if case.described is not None:
        group, kind, name = case.described
        plural = {"Ingress": "ingresses"}.get(kind, f"{kind.lower()}s")
        what, labels = f"{plural}{'.' if group else ''}{group}/{name}", ""
        what = "metrics" if kind == "Namespace" else what
    path = f"custom.metrics.k8s.io/{of_namespace}/{what}/{case.name}"
    items = world.served(path, labelSelector=labels, metricLabelSelector=selector)
    by_name = {document["describedObject"]["name"]: milli(document["value"]) for document in items}
    return by_name if case.described is None else {"": next(iter(by_name.values()))}


def ours(world: World, case: Case, resolved: ResolvedQuery, folder: Path) -> dict[str, int]:
    """Return what a target of a configuration with the query reads."""
    source: dict[str, Any] = {
        "metric": {"name": resolved.name},
        "target": {"type": "AverageValue", "averageValue": "1"},
    }
    if resolved.selector is not None:
        source["metric"]["selector"] = resolved.selector
    if case.described is not None:
        group, kind, name = case.described
        version = f"{group}/v1" if group else "v1"
        source["describedObject"] = {"apiVersion": version, "kind": kind, "name": name}
    target = {
        "namespace": world.namespace,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "maxReplicas": 5,
        "metrics": [{"type": case.kind, case.kind.lower(): source}],
    }
    file = folder / "autoscaler.yaml"
    queries = {resolved.name: resolved.query}
    document = {"prometheus": {"url": world.prometheus}, "queries": queries, "targets": [target]}
    file.write_text(yaml.safe_dump(document))
    (loaded,) = load(file).targets
    (metric,), (query,) = loaded.spec.metrics, loaded.queries
    pods = [Pod(name, "Running", None, None, None, False, PodRequests(())) for name in PODS]  # noqa: FBT003
    answer = answered(ask(world.prometheus, query.promql))
    reading = read(metric, query, answer, world.namespace, pods, time.time())
    if isinstance(reading, PodSamples):
        return {name: sample.milli for name, sample in reading.samples.items()}
    assert isinstance(reading, Values), reading
    return {"": sum(reading.values)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_rule_gives_the_numbers_of_the_adapter(world: World, case: Case, tmp_path: Path) -> None:
    described = case.described
    if described is not None and described.kind == "Namespace":
        described = described._replace(name=world.namespace)
    found = []
    for find_series in (None, world.find_series):
        resolved = resolve(
            world.rules,
            case.kind,
            case.name,
            namespace=world.namespace,
            described=described,
            selector=case.selector,
            find_series=find_series,
        )
        assert isinstance(resolved, ResolvedQuery), resolved
        if resolved not in found:
            found.append(resolved)
    expected = theirs(world, case)
    assert len(expected) == (3 if case.kind == "Pods" else 1)
    for resolved in found:
        assert ours(world, case, resolved, tmp_path) == pytest.approx(expected, abs=1.01)
        assert (world.namespace in str(resolved.query)) is not case.shared
