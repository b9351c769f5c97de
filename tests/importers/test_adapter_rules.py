"""Rules of prometheus-adapter are found in documents and read."""

import textwrap
from collections.abc import Mapping

import pytest
import yaml

from autoscaler.migrate.adapter_rules import AdapterRules, chart_rules, merged, rules_in
from autoscaler.migrate.fields import Fields, KeyEntry, KeyOutcome
from tests.narrowing import known
from tests.tables import rows

RULE = {
    "seriesQuery": 'http_requests_total{namespace!="",pod!=""}',
    "resources": {"overrides": {"namespace": {"resource": "namespace"}}},
    "name": {"matches": "^(.*)_total$", "as": "${1}_per_second"},
    "metricsQuery": "sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)",
}
OTHER = {**RULE, "name": {"as": "other"}}
BARE = {"rules": [RULE], "externalRules": [OTHER]}
VALUES = {
    "prometheus": {"url": "http://prometheus.monitoring.svc", "port": 9090, "path": "/p"},
    "replicas": 2,
    "rules": {"default": False, "custom": [RULE], "external": [OTHER], "existing": None},
}
HELM = {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease"}
ARGO = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application"}
CHART = {"chart": "prometheus-adapter", "repoURL": "https://charts.example"}


def config_map(text: str, key: str = "config.yaml", **others: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "data": {key: text, **others}}


def helm(**values: object) -> dict[str, object]:
    return {**CHART, "helm": values}


TEXT = yaml.safe_dump(VALUES)
BY_OBJECT = {"source": helm(valuesObject=VALUES)}
DOCUMENTS: dict[str, Mapping[str, object]] = {
    "a configuration": BARE,
    "a ConfigMap": config_map(yaml.safe_dump(BARE), other="text"),
    "a ConfigMap of values": config_map(TEXT),
    "values of the chart": VALUES,
    "values of a chart around it": {"prometheus-adapter": VALUES, "grafana": {"enabled": True}},
    "a HelmRelease": {**HELM, "spec": {"chart": {"spec": CHART}, "values": VALUES}},
    "a HelmChart": {
        "apiVersion": "helm.cattle.io/v1",
        "kind": "HelmChart",
        "spec": {**CHART, "valuesContent": TEXT},
    },
    "an Application with an object": {**ARGO, "spec": {"project": "x", **BY_OBJECT}},
    "an Application with a text": {**ARGO, "spec": {"source": helm(values=TEXT)}},
    "an Application of several sources": {
        **ARGO,
        "spec": {"sources": [{"path": "x"}, helm(valuesObject=VALUES)]},
    },
    "an ApplicationSet": {
        **ARGO,
        "kind": "ApplicationSet",
        "spec": {"generators": [], "template": {"spec": BY_OBJECT}},
    },
}


def read(document: object) -> AdapterRules:
    """Return the rules of a document that has some."""
    return known(rules_in(Fields(document)))


def refusals(fields: Fields) -> list[KeyEntry]:
    return [entry for entry in fields.entries() if entry.outcome is KeyOutcome.REFUSED]


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_rules_are_found_in_each_form_of_document(document: Mapping[str, object]) -> None:
    fields = Fields(document)
    rules = known(rules_in(fields))
    assert [rule.name_as for rule in (*rules.custom, *rules.external)] == [
        "${1}_per_second",
        "other",
    ]
    assert rules.problems == ()
    for key in ("apiVersion", "kind"):
        fields.carried(key)
    fields.refuse_the_rest()
    refused = [entry.location for entry in refusals(fields)]
    assert refused == []


def test_the_address_of_prometheus_comes_from_the_values() -> None:
    assert read(VALUES).prometheus_url == "http://prometheus.monitoring.svc:9090/p"
    assert read(BARE).prometheus_url is None
    templated = {**VALUES, "prometheus": {"url": "http://{{ .Release.Name }}"}}
    assert read(templated).prometheus_url is None


def test_an_unknown_key_in_a_text_is_refused() -> None:
    text = yaml.safe_dump({"rules": [{**RULE, "labelValueReplacements": []}]})
    fields = Fields(config_map(text))
    assert rules_in(fields) is not None
    (refused,) = refusals(fields)
    assert refused.location == ("data", "config.yaml", "rules", 0, "labelValueReplacements")


def test_empty_keys_are_accounted_for() -> None:
    empty = {"seriesFilters": [], "name": {"matches": "", "as": None}, "resources": {}}
    group = {"overrides": {"ns": {"group": "", "resource": "namespace"}}, "template": ""}
    rules = [{**RULE, **empty}, {**RULE, "name": {}, "resources": group}]
    for document in (
        {"rules": rules, "externalRules": []},
        {"rules": {"custom": rules, "external": []}},
    ):
        fields = Fields(document)
        assert rules_in(fields) is not None
        fields.refuse_the_rest()
        assert {entry.outcome for entry in fields.entries()} == {KeyOutcome.CARRIED}


@pytest.mark.parametrize(
    "document",
    [
        {},
        None,
        [],
        {"rules": []},
        {"rules": {}},
        {"groups": [{"rules": [{"alert": "x"}]}]},
        {"rules": [{"alert": "x"}]},
        config_map("rules: [{", "rules.yaml"),
        {"apiVersion": "v1", "kind": "Service", "spec": {"rules": [RULE]}},
        config_map("rules: [{alert: x}]", "prometheus.yml"),
    ],
)
def test_other_documents_have_no_rules(document: object) -> None:
    assert rules_in(Fields(document)) is None


def test_the_default_rules_of_the_chart_come_first() -> None:
    values = {"rules": {"custom": [RULE]}}
    assert [rule.of_chart for rule in read(values).custom] == [True] * 6 + [False]
    assert read({"rules": {"default": True, "custom": []}}).custom == chart_rules()
    assert not read({"rules": {"default": False, "custom": []}}).custom


def test_an_existing_configmap_of_rules_is_requested() -> None:
    fields = Fields({"rules": {"existing": "my-rules", "custom": [RULE]}})
    rules = known(rules_in(fields))
    assert rules.custom == ()
    (refused,) = refusals(fields)
    assert (refused.location, "my-rules" in refused.why) == (("rules", "existing"), True)


def test_each_wrong_rule_has_a_problem_at_its_place() -> None:
    text = textwrap.dedent("""\
        rules:
        - {seriesQuery: a, metricsQuery: "sum(<<.Series>>) by (<<.GroupBy"}
        - {seriesQuery: b, name: {matches: "(", as: b}, metricsQuery: x}
        - {seriesQuery: c, name: {matches: "(a)(b)"}, metricsQuery: x}
        - {metricsQuery: x}
        - {seriesQuery: [d], metricsQuery: x}
        - {seriesQuery: e, seriesFilters: [{is: "("}], metricsQuery: x}
        - {seriesQuery: f, resources: {template: "<<.Group"}, metricsQuery: x}
        - {seriesQuery: g, metricsQuery: x}
        - {seriesQuery: h, name: {matches: "(a)(b)(c)(d)", as: "$1$2$3$4"}, metricsQuery: x}
        - {seriesQuery: i, name: {matches: "(a+)+$"}, metricsQuery: x}
        - {seriesQuery: j, metricsQuery: "<<if .Series>>x<<end>>"}
        - {seriesQuery: '{__name__=~"(a|b.)+"}', metricsQuery: x}
        """)
    fields = Fields(yaml.safe_load(text))
    rules = known(rules_in(fields))
    assert [rule.series_query for rule in rules.custom if not rule.problem] == ["g"]
    assert [rule.series_query for rule in rules.custom if rule.problem] == [
        *"abcefhij",
        '{__name__=~"(a|b.)+"}',
    ]
    places = [problem.partition(" ")[0] for problem in rules.problems]
    assert places == [
        "rules[0].metricsQuery",
        "rules[1].name.matches",
        "rules[2].name.as",
        "rules[3].seriesQuery",
        "rules[4].seriesQuery",
        "rules[4].seriesQuery",
        "rules[5].seriesFilters[0].is",
        "rules[6].resources.template",
        "rules[8].name.as",
        "rules[9].name.matches",
        "rules[10].metricsQuery",
        "rules[11].seriesQuery",
    ]
    refused = refusals(fields)
    assert len(refused) == 11
    assert all(item.why for item in refused)


def test_rules_of_several_documents_keep_their_order() -> None:
    both = merged([read(BARE), read(VALUES)])
    assert len(both.custom) == len(both.external) == 2
    assert both.prometheus_url == "http://prometheus.monitoring.svc:9090/p"
    assert merged([]) == AdapterRules()


LABELS = """
overrides: {p: {resource: pods}} | - | Pod | p
overrides: {i: {resource: ingresses}} | networking.k8s.io | Ingress | i
overrides: {i: {group: x, resource: ingress}} | y | Ingress | -
overrides: {a: {resource: job}, b: {group: batch, resource: job}} | batch | Job | b
overrides: {p: {resource: policies}} | - | Policy | p
template: "kube_<<.Group>>_<<.Resource>>" | cert-manager.io | Issuer | kube_cert_manager_io_issuer
template: <<.Resource>> | apps | Deployment | deployment
overrides: {} | - | Pod | -
"""


@pytest.mark.parametrize(("resources", "group", "kind", "label"), rows(LABELS))
def test_the_label_of_a_resource_is_that_of_an_override_or_the_template(
    resources: str, group: str, kind: str, label: str
) -> None:
    (rule,) = read({"rules": [{**RULE, "resources": yaml.safe_load(resources)}]}).custom
    assert (rule.resources.label(group.strip("-"), kind) or "-") == label


@pytest.mark.parametrize(
    ("changes", "metric", "series"),
    [
        ({}, "http_requests_per_second", ["http_requests_total"]),
        ({}, "http_requests", []),
        ({"seriesQuery": '{__name__=~"^http_.*"}'}, "http_x_per_second", ["http_x_total"]),
        ({"seriesQuery": '{__name__=~"^http_.*"}'}, "grpc_x_per_second", []),
        ({"seriesQuery": '{__name__!~"^http_.*"}'}, "http_x_per_second", []),
        ({"seriesQuery": '{job="x"}', "name": {}}, "anything", ["anything"]),
        ({"seriesQuery": '{job="x"}', "name": {"matches": "^a_(.*)$"}}, "b", ["a_b"]),
        ({"seriesQuery": '{__name__=~"^a_(x|y)$"}', "name": {"as": "c"}}, "c", ["a_x", "a_y"]),
        ({"seriesQuery": '{job="x"}', "seriesFilters": [{"isNot": "_total$"}]}, "a_per_second", []),
        (
            {"seriesQuery": '{job="x"}', "seriesFilters": [{"is": "^a"}]},
            "a_per_second",
            ["a_total"],
        ),
        ({"seriesQuery": '{job="x"}', "name": {"as": "$1_x", "matches": "(.*)"}}, "a_x", []),
        ({"seriesQuery": '{job="x"}'}, "no-series_per_second", []),
    ],
)
def test_a_rule_gives_the_series_of_a_metric(
    changes: Mapping[str, object], metric: str, series: list[str]
) -> None:
    (rule,) = read({"rules": [{**RULE, **changes}]}).custom
    assert [made.text for made in rule.series_of(metric)] == series
    assert all(rule.name_of(name) == metric for name in series)
