"""What a metric that prometheus-adapter serves is read with here."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pytest

from autoscaler.config.conversion import usage_once
from autoscaler.config.promql_parser import parse, selectors_in
from autoscaler.migrate.adapter_queries import (
    DescribedObject,
    MetricType,
    ResolvedQuery,
    UnresolvedQuery,
    resolve,
    resource_queries,
)
from autoscaler.migrate.adapter_rules import AdapterRules, chart_rules, rules_in
from autoscaler.migrate.fields import Fields, KeyOutcome
from tests.narrowing import assert_parts, instance, known
from tests.tables import rows

BY_POD = {"overrides": {"namespace": {"resource": "namespace"}, "pod": {"resource": "pod"}}}
BY_NAME = {"template": "<<.Resource>>"}
SUM = "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)"
Kind: TypeAlias = tuple[MetricType, DescribedObject | None]
PODS: Kind = ("Pods", None)
FRONT: Kind = ("Object", DescribedObject("", "Service", "front"))
EXTERNAL: Kind = ("External", None)
ORDERS = {"matchLabels": {"queue": "orders"}}
ANY = {"matchExpressions": [{"key": "queue", "operator": "In", "values": ["b", "a"]}]}
SHOP = {"matchLabels": {"namespace": "shop"}}


def rules(*written: Mapping[str, object]) -> AdapterRules:
    """Return rules for both kinds of metrics, with a series, labels and a query unless given."""
    usual = {"seriesQuery": "x", "resources": BY_NAME, "metricsQuery": SUM}
    each = [{**usual, **manifest} for manifest in written]
    found = known(rules_in(Fields({"rules": each, "externalRules": each})))
    assert found.problems == ()
    return found


def outcome(
    of: AdapterRules,
    kind: Kind = PODS,
    name: str = "x",
    selector: object = None,
    series: Mapping[str, Sequence[str]] | None = None,
) -> ResolvedQuery | UnresolvedQuery:
    """Resolve a metric of an HPA in shop; ``series`` are the names that Prometheus has."""

    def find(query: str) -> list[Mapping[str, str]]:
        names = next((found for part, found in (series or {}).items() if part in query), ())
        return [{"__name__": name} for name in names if "kube_" not in query]

    return resolve(
        of,
        kind[0],
        name,
        namespace="shop",
        described=kind[1],
        selector=selector,
        find_series=None if series is None else find,
    )


def resolved(of: AdapterRules, kind: Kind = PODS, name: str = "x", **more: Any) -> ResolvedQuery:
    """Return the query of a metric that has one; the arguments are those of `outcome`."""
    return instance(ResolvedQuery, outcome(of, kind, name, **more))


def refusal(of: AdapterRules, kind: Kind = PODS, name: str = "x", **more: Any) -> str:
    """Return why a metric has no query."""
    return instance(UnresolvedQuery, outcome(of, kind, name, **more)).sentence


SELECTORS = {
    "-": None,
    "orders": ORDERS,
    "any": ANY,
    "shop": SHOP,
    "orders of shop": {"matchLabels": {"namespace": "shop", "queue": "orders"}},
    "pod a": {"matchLabels": {"pod": "a"}},
    "expressions": {
        "matchExpressions": [
            {"key": "c", "operator": "DoesNotExist"},
            {"key": "b", "operator": "Exists"},
            {"key": "a", "operator": "NotIn", "values": ["1"]},
        ]
    },
}
KINDS: dict[str, Kind] = {
    "pods": PODS,
    "front": FRONT,
    "namespace": ("Object", DescribedObject("", "Namespace", "other")),
    "external": EXTERNAL,
}
QUERIES = """
pods | SUM | - | sum(x{namespace!="",pod!=""}) by (namespace, pod) | -
pods | SUM | orders | sum(x{namespace!="",queue!="",pod!=""}) by (namespace, queue, pod) | orders
pods | SUM | any
    | label_replace(sum(x{queue=~"a|b",namespace="shop",pod!=""}) by (pod), "namespace", "shop",
    "", "") | -
pods | x{<<.LabelMatchers>>} | expressions | x{a!~"1",b!="",c="",namespace="shop",pod!=""} | -
pods | SUM | pod a
    | label_replace(sum(x{pod="a",namespace="shop",pod!=""}) by (pod), "namespace", "shop", "", "")
    | -
pods | x{<<.LabelMatchers>>,pod=~"<<index .LabelValuesByName "pod">>"} | -
    | x{namespace!="",pod!="",pod=~".+"} | -
pods | x{<<.LabelMatchers>>,a="<<.LabelValuesByName.namespace>>"} | -
    | x{namespace="shop",pod!="",a="shop"} | -
pods | SUM | shop | sum(x{namespace!="",pod!=""}) by (namespace, pod) | -
front | SUM | - | sum(x{namespace!="",service!=""}) by (namespace, service) | -
front | SUM | any | sum(x{queue=~"a|b",namespace="shop",service="front"}) by (service) | -
namespace | SUM | - | sum(x{namespace!=""}) by (namespace) | -
external | SUM | orders | sum(x{namespace!="",queue!=""}) by (namespace, queue) | orders of shop
external | max(x{<<.LabelMatchers>>}) | any | max(x{queue=~"a|b",namespace="shop"}) | -
external | sum(x) | orders | sum(x) | -
external | x{<<.LabelMatchers>>} | - | x{namespace!=""} | shop
external | sum(x{<<.LabelMatchers>>}) / scalar(sum(y)) | -
    | sum(x{namespace="shop"}) / scalar(sum(y)) | -
external | sum(x{<<.LabelMatchers>>}) / count(y) | - | sum(x{namespace="shop"}) / count(y) | -
external | x{namespace="<<index .LabelValuesByName "namespace">>"} | - | x{namespace="shop"} | -
"""


@pytest.mark.parametrize(("kind", "written", "selector", "promql", "becomes"), rows(QUERIES))
def test_a_query_serves_all_hpas_if_possible(
    kind: str, written: str, selector: str, promql: str, becomes: str
) -> None:
    of = rules({"metricsQuery": written.replace("SUM", SUM)})
    found = resolved(of, KINDS[kind], selector=SELECTORS[selector])
    assert (found.query, found.selector) == (promql, SELECTORS[becomes])


def test_labels_of_other_names_are_listed_or_renamed() -> None:
    resources = {
        "overrides": {
            "exported_namespace": {"resource": "namespace"},
            "exported_pod": {"resource": "pod"},
            "exported_service": {"resource": "service"},
        }
    }
    of = rules({"resources": resources})
    assert resolved(of).query == {
        "query": 'sum(x{exported_namespace!="",exported_pod!=""}) by '
        "(exported_namespace, exported_pod)",
        "labels": {"namespace": "exported_namespace", "pod": "exported_pod"},
    }
    assert resolved(of, FRONT).query == {
        "query": 'label_replace(sum(x{exported_namespace!="",exported_service!=""}) by '
        '(exported_namespace, exported_service), "service", "$1", "exported_service", "(.+)")',
        "labels": {"namespace": "exported_namespace"},
    }


def test_nan_is_zero_as_in_the_custom_metrics_api() -> None:
    """0/0 is 0 there for pods and objects; for External metrics the adapter gives nonsense."""
    of = rules({"metricsQuery": f"{SUM} / {SUM}"})
    for kind in (PODS, FRONT):
        found = resolved(of, kind)
        assert isinstance(found.query, Mapping)
        assert found.query["nan"] == "zero"
    found = resolved(of, EXTERNAL)
    assert isinstance(found.query, str)


def test_a_rule_that_is_not_namespaced_reads_any_namespace() -> None:
    of = rules({"resources": {"namespaced": False}})
    elsewhere = {"matchLabels": {"namespace": "queues", "queue": "orders"}}
    found = resolved(of, EXTERNAL, selector=elsewhere)
    assert found.query == 'sum(x{namespace!="",queue!=""}) by (namespace, queue)'
    assert found.selector == elsewhere
    assert found.notes == ()
    bare = resolved(of, EXTERNAL)
    assert (bare.query, bare.selector) == ("sum(x) by ()", None)


NOTED: list[tuple[Kind, Mapping[str, object], object, str]] = [
    (EXTERNAL, {"metricsQuery": "sum(x)"}, ORDERS, "does not use the selector"),
    (EXTERNAL, {"resources": {}}, None, "names no label for namespaces"),
    (EXTERNAL, {}, {"matchLabels": {"namespace": "other"}}, "what the selector says counts"),
    (PODS, {"metricsQuery": "sum(x) by (pod)"}, None, "does not select a namespace"),
    (PODS, {"seriesQuery": '{__name__=~"y.*"}', "name": {"as": "x"}}, None, "takes any series"),
    (FRONT, {"metricsQuery": "sum(x) by (service)"}, None, "does not select a namespace"),
]


@pytest.mark.parametrize(("kind", "rule", "selector", "note"), NOTED)
def test_a_difference_from_the_adapter_is_noted(
    kind: Kind, rule: Mapping[str, object], selector: object, note: str
) -> None:
    found = resolved(rules(rule), kind, selector=selector)
    (text,) = found.notes
    assert note in text
    assert "ules[0]" in text


REFUSED: list[tuple[Kind, Mapping[str, object], object, str]] = [
    (PODS, {"metricsQuery": ""}, None, "has no metricsQuery"),
    (PODS, {"resources": {}}, None, "names no label for a namespace"),
    (FRONT, {"resources": BY_POD}, None, "names no label for Service objects"),
    (PODS, {"metricsQuery": "sum(x{<<.LabelMatchers>>})"}, None, "no series with the label pod"),
    (PODS, {"metricsQuery": "sum(x{<<.LabelMatchers>>}"}, None, "is invalid PromQL"),
    (PODS, {"metricsQuery": "<<.Nothing>>"}, None, "no field .Nothing"),
    (PODS, {}, {"matchLabels": {"app.kubernetes.io/name": "x"}}, "not a label of Prometheus"),
    (PODS, {}, {"matchLabels": {"namespace": "other"}}, "finds nothing"),
    (PODS, {}, {"matchExpressions": [{"key": "a", "operator": "Gt"}]}, "operator Gt"),
    (PODS, {}, {"matchExpressions": [{"key": "a", "operator": "In"}]}, "wrong number of values"),
    (PODS, {"name": {"as": "y"}}, None, "none of the 1 rules"),
    (
        PODS,
        {"name": {"matches": "(x)", "as": "$1_y"}},
        None,
        "a group that does not exist: write the number in braces, as ${1}",
    ),
    (PODS, {"seriesQuery": '{__name__=~"^x_.*"}', "name": {"as": "x"}}, None, "ask Prometheus"),
    (PODS, {"seriesQuery": '{job="y"}', "name": {"as": "x"}}, None, "ask Prometheus"),
]


@pytest.mark.parametrize(("kind", "rule", "selector", "sentence"), REFUSED)
def test_a_metric_without_a_query_has_a_reason(
    kind: Kind, rule: Mapping[str, object], selector: object, sentence: str
) -> None:
    assert sentence in refusal(rules(rule), kind, selector=selector)


def test_a_refusal_names_similar_metrics_and_the_other_kind() -> None:
    of = rules({"seriesQuery": "http_requests_total", "name": {"as": "http_requests_per_second"}})
    near = refusal(of, name="http_request_per_second")
    assert "near it are http_requests_per_second;" in near
    other = refusal(AdapterRules(custom=of.custom), EXTERNAL, "http_requests_per_second")
    assert_parts(other, "no externalRules here", "Pods and Object does")


NAMED = {"seriesQuery": 'jobs{a="b",namespace!=""}', "name": {"as": "x"}}
MAX = {**NAMED, "metricsQuery": SUM.replace("sum", "max")}
LATER = """
jobs | max(jobs{ | -
{__name__="jobs"} | max(jobs{ | -
{__name__=~"^jobs$"} | max(jobs{ | -
{__name__=~"jobs",a="b"} | max(jobs{ | -
{__name__=~"(jobs)",namespace!=""} | max(jobs{ | -
{__name__=~"^jo.*"} | max(jobs{ | rules[1]
{__name__=~"jobs|queue"} | max(jobs{ | which of these the ad
{__name__!~"^other.*",a="b"} | max(jobs{ | rules[1]
{namespace!=""} | max(jobs{ | rules[1]
{__name__=~"^jobs$",c="d"} | max(jobs{ | rules[0]
{__name__=~"^queue_.*"} | sum(jobs{ | rules[1]
{__name__=~"jobs.*",c="d"} | sum(jobs{ | rules[1]
{c="d"} | sum(jobs{ | rules[1]
queue | max(queue{ | rules[0]
"""
"""Series of a rule after that for `NAMED`, what is taken, and how the note on another begins."""


@pytest.mark.parametrize(("query", "promql", "other"), rows(LATER))
def test_the_last_rule_that_finds_series_wins(query: str, promql: str, other: str) -> None:
    of = rules(NAMED, {**MAX, "seriesQuery": query})
    for kind in (PODS, FRONT, EXTERNAL) if other == "-" else (PODS,):
        found = resolved(of, kind)
        assert str(found.query).startswith(promql)
        assert str(found.query).count("(jobs{") == promql.count("(jobs{")
        assert [note[: len(other)] for note in found.notes] == [other] * (other != "-")
        assert all("--prometheus" in note for note in found.notes)


@pytest.mark.parametrize("query", ['{__name__=~"jobs|queue"}', '{__name__=~"^queue_.*"}', "queue"])
def test_an_earlier_rule_may_win_if_the_last_finds_nothing(query: str) -> None:
    found = resolved(rules({**NAMED, "seriesQuery": query}, MAX))
    assert str(found.query).startswith("max(jobs{")
    (note,) = found.notes
    assert note.startswith("rules[0] can give this metric")


def test_a_rule_for_any_series_may_win_over_a_pattern() -> None:
    pattern = {"seriesQuery": '{__name__=~"^http_.*"}', "name": {"matches": "^http_(x)$"}}
    anything = {"seriesQuery": '{c="d"}', "name": {"matches": "^(.+)_(.+)$", "as": "x"}}
    for both in ((pattern, anything), (anything, pattern)):
        found = resolved(rules(*both, {"seriesQuery": "y"}))
        assert str(found.query).startswith("sum(http_x{")
        other = {**anything, "metricsQuery": SUM.replace("sum", "max")}
        found = resolved(rules(*(other if item is anything else item for item in both)))
        (note,) = found.notes
        assert "can give this metric, too" in note


def test_equal_queries_of_two_rules_have_no_note() -> None:
    found = resolved(rules(NAMED, {**NAMED, "seriesQuery": 'jobs{c="d"}'}))
    assert found.notes == ()


NOT_UNDERSTOOD: list[Mapping[str, object]] = [
    {"metricsQuery": "<<if .Series>>x<<end>>"},
    {"seriesFilters": [{"is": "(a+)+"}]},
    {"seriesQuery": '{__name__=~"(x|y.)+"}'},
    {"name": {"matches": "(x+)+", "as": "x"}, "seriesQuery": "x"},
]


@pytest.mark.parametrize("rule", NOT_UNDERSTOOD)
def test_an_unknown_rule_is_noted_or_refused(rule: Mapping[str, object]) -> None:
    first = {"seriesQuery": "x", "resources": BY_NAME, "metricsQuery": SUM}
    found = known(rules_in(Fields({"rules": [first, {**first, **rule}]})))
    metric = outcome(found)
    if isinstance(metric, ResolvedQuery):
        assert "rules[1] can give this metric" in metric.notes[0]
    else:
        assert "rules[1]" in metric.sentence
        assert "in `queries` by hand" in metric.sentence


SEVERAL = [
    ("x{<<.LabelMatchers>>}", True),
    ("rate(x{<<.LabelMatchers>>}[2m])", True),
    ("sum(x{<<.LabelMatchers>>}) by (<<.GroupBy>>, path)", True),
    ("sum(x{<<.LabelMatchers>>}) without (path)", True),
    ("topk(1, sum(x{<<.LabelMatchers>>}) by (<<.GroupBy>>, path))", True),
    (
        "label_replace(sum(x{<<.LabelMatchers>>}) by (<<.GroupBy>>), 'a', '$1', 'pod', '(.*)')",
        False,
    ),
    ("max(rate(x{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)", False),
    ("max(sum(x{<<.LabelMatchers>>}) by (<<.GroupBy>>, path)) by (<<.GroupBy>>)", False),
    (f"{SUM} / {SUM} * 100", False),
    ("sum(x{<<.LabelMatchers>>}) by (<<.GroupBy>>, queue)", False),
]


@pytest.mark.parametrize(("written", "is_noted"), SEVERAL)
def test_several_series_of_one_object_are_noted(written: str, is_noted: bool) -> None:
    """The adapter takes any of them for pods and objects; an External metric is their sum."""
    for kind in (PODS, FRONT):
        found = resolved(rules({"metricsQuery": written}), kind, selector=ORDERS)
        assert any("several series of one object" in note for note in found.notes) is is_noted
    external = resolved(rules({"metricsQuery": "x{<<.LabelMatchers>>}"}), EXTERNAL, selector=ORDERS)
    assert external.notes == ()


def test_the_last_rule_with_existing_series_wins() -> None:
    of = AdapterRules(custom=chart_rules())
    gauge = 'sum(hits{namespace!="",pod!=""}) by (namespace, pod)'
    rate = 'sum(rate(hits_total{namespace!="",pod!=""}[5m])) by (namespace, pod)'
    for series, promql in (
        (["hits"], gauge),
        (["hits_total"], rate),
        (["hits", "hits_total"], rate),
    ):
        found = resolved(of, name="hits", series={item: [item] for item in reversed(series)})
        assert (found.query, found.notes) == (promql, ())
    # Without an answer, and where there are none now, the query takes whichever there will be.
    seconds = rate.replace("hits_total", "hits_seconds_total")
    for found in (resolved(of, name="hits"), resolved(of, name="hits", series={})):
        assert found.query == f"{seconds}\nor {rate}\nor {gauge}"
        assert "which of these the ad" in found.notes[0]


ASKED = [
    ('{__name__=~"^jobs_.*"}', '{__name__=~"^jobs_.*",pod!=""}'),
    ('{__name__=~"^jobs.*"}', '{__name__=~"^jobs.*",pod!=""}'),
    ('{__name__=~"jobs_(a|b)"}', '{__name__=~"jobs_(a|b)",__name__=~"jobs_a|jobs_b",pod!=""}'),
    ('{__name__=~"jobs_a"}', '{__name__=~"jobs_a",__name__=~"jobs_a",pod!=""}'),
    ('{job="y"}', '{job="y",pod!=""}'),
]


@pytest.mark.parametrize(("series", "query"), ASKED)
def test_prometheus_is_asked_for_the_series_of_a_rule(series: str, query: str) -> None:
    """Never for a name that is a guess; where there is none, the advice is not to ask it."""
    of = rules({"seriesQuery": series, "name": {"as": "x"}})
    found = resolved(of, series={query: ["jobs_a"]})
    assert found.query == 'sum(jobs_a{namespace!="",pod!=""}) by (namespace, pod)'
    assert found.notes == ()
    missing = outcome(of, series={})
    sentences = missing.notes if isinstance(missing, ResolvedQuery) else (missing.sentence,)
    assert not any("--prometheus" in sentence for sentence in sentences)
    if isinstance(missing, ResolvedQuery):
        assert any("no series" in note for note in missing.notes)


def test_only_series_with_the_label_of_the_object_count() -> None:
    of = rules({"seriesQuery": '{a="b",__name__=~"^y.*"}', "name": {"as": "x"}})
    by_deployment = {"template": "kube_<<.Resource>>"}
    later = rules(
        {"seriesQuery": '{a="c",__name__=~"^y.*"}', "name": {"as": "x"}, "resources": by_deployment}
    )
    both = AdapterRules(custom=(*of.custom, *later.custom))
    found = resolved(both, series={'a="b"': ["y_count", "y_total"], 'a="c"': ["y_sum"]})
    assert found.query == 'sum(y_total{namespace!="",pod!=""}) by (namespace, pod)'


def test_only_names_of_cadvisor_are_tried_with_its_prefix() -> None:
    of = AdapterRules(custom=chart_rules())
    found = resolved(of, name="cpu_usage")
    assert "container_cpu_usage_seconds_total" in str(found.query)
    found = resolved(of, name="http_requests")
    assert "container_" not in str(found.query)


def test_a_long_query_keeps_its_lines_without_comments() -> None:
    total = "sum(\n  requests_of_all_kinds_total{<<.LabelMatchers>>}\n) by (<<.GroupBy>>)\n"
    ratio = f"{SUM}\n  / # of all\n{total}"
    found = resolved(rules({"metricsQuery": ratio}))
    assert isinstance(found.query, Mapping)
    assert found.query["query"] == (
        'sum(x{namespace!="",pod!=""}) by (namespace, pod)\n/\nsum(\n'
        '  requests_of_all_kinds_total{namespace!="",pod!=""}\n) by (namespace, pod)'
    )


CPU, MEMORY = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
BY_LABELS = {"namespace": {"resource": "namespace"}, "pod": {"resource": "pod"}}


def resource_query(
    name: str, query: str, overrides: Mapping[str, object] = BY_LABELS, label: str = "container"
) -> tuple[object, list[str], tuple[str, ...]]:
    """Return what a rule becomes, the differences and the problems."""
    rule = {"containerQuery": query, "nodeQuery": "x", "containerLabel": label}
    fields = Fields(
        {"resourceRules": {name: {**rule, "resources": {"overrides": overrides}}, "window": "3m"}}
    )
    found = known(rules_in(fields))
    queries, problems = resource_queries(found)
    different = [entry.why for entry in fields.entries() if entry.outcome is KeyOutcome.DIFFERENT]
    return queries.get(name), different, problems


USUAL = [
    ("cpu", f'sum by (<<.GroupBy>>) (rate({CPU}{{container!="",<<.LabelMatchers>>}}[3m]))'),
    ("cpu", f"sum(rate({CPU}{{<<.LabelMatchers>>}}[1m])) by (<<.GroupBy>>)"),
    (
        "cpu",
        f'sum by (<<.GroupBy>>) (\n irate (\n {CPU}{{<<.LabelMatchers>>,pod!=""}}[120s]\n )\n)\n',
    ),
    ("memory", f'sum by (<<.GroupBy>>) ({MEMORY}{{<<.LabelMatchers>>,container!="",pod!=""}})'),
    ("memory", f"sum({MEMORY}{{<<.LabelMatchers>>}}) by (<<.GroupBy>>)"),
]


@pytest.mark.parametrize(("name", "query"), USUAL)
def test_the_built_in_query_replaces_the_usual_resource_rules(name: str, query: str) -> None:
    written, different, problems = resource_query(name, query)
    assert (written, problems) == (None, ())
    assert len(different) == (name == "cpu")


def test_a_resource_rule_with_more_matchers_counts_each_container_once() -> None:
    query = f'sum(rate({CPU}{{<<.LabelMatchers>>,job="kubelet"}}[5m])) by (<<.GroupBy>>)'
    written, different, _ = resource_query("cpu", query)
    matchers = 'container!="", container!="POD", job="kubelet"'
    usage = f"rate({CPU}{{{matchers}}}[5m])"
    once = usage_once(usage, ("namespace", "pod", "container"), matchers)
    assert (written, different) == ({"query": once, "window": "3m"}, [])
    assert len(selectors_in(parse(once))) > 2
    old = {"namespace": {"resource": "namespace"}, "pod_name": {"resource": "pod"}}
    query = f"sum({MEMORY}{{<<.LabelMatchers>>}}) by (<<.GroupBy>>)"
    written, _, _ = resource_query("memory", query, old, "container_name")
    assert isinstance(written, Mapping)
    assert written["labels"] == {"pod": "pod_name", "container": "container_name"}
    matchers = 'container_name!="", container_name!="POD"'
    names = ("namespace", "pod_name", "container_name")
    assert written["query"] == usage_once(f"{MEMORY}{{{matchers}}}", names, matchers)


@pytest.mark.parametrize(
    "query",
    [
        "sum(rate(c{<<.LabelMatchers>>}[3m])) by (<<.GroupBy>>)",
        f"sum(rate({CPU}{{<<.LabelMatchers>>}}[3m] offset 1m)) by (<<.GroupBy>>)",
        f"sum(rate({CPU}{{<<.LabelMatchers>>}}[3m]) * 2) by (<<.GroupBy>>)",
        f"sum(max_over_time({MEMORY}{{<<.LabelMatchers>>}}[3m])) by (<<.GroupBy>>)",
    ],
)
def test_any_other_resource_rule_is_kept_with_a_difference(query: str) -> None:
    written, different, problems = resource_query("cpu", query)
    assert isinstance(written, Mapping)
    text = str(written["query"])
    assert text.endswith("by (namespace, pod, container)")
    assert '{namespace!="",pod!="",container!="",container!="POD"}' in text
    assert problems == ()
    (sentence,) = different
    assert "several series of one container" in sentence


def test_a_resource_rule_without_containers_is_a_problem() -> None:
    written, _, (problem,) = resource_query("memory", "sum(m{<<.LabelMatchers>>})")
    assert written is None
    assert problem.startswith("resourceRules.memory.containerQuery: ")
