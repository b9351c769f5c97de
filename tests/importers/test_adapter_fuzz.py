"""No document of rules makes the reading of it fail."""

from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.migrate.adapter_queries import (
    Described,
    MetricType,
    Resolved,
    Unresolved,
    resolve,
    resource_queries,
)
from autoscaler.migrate.adapter_rules import rules_in
from autoscaler.migrate.fields import Fields

PARTS = (
    *(
        "http_requests_total",
        '{__name__=~"^a_(.*)$"}',
        '{namespace!="",__name__!~"^b.*"}',
        "{",
        "x{",
    ),
    *("^(.*)_total$", "(a+)+$", "^((a|b)*)*c", "(", "$1_x", "${1}_per_second", "${2}", "a", ""),
    *("<<.Resource>>", "kube_<<.Group>>_<<.Resource>>", "<<", "<<.Group", "<<range .X>><<end>>"),
    *(
        "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)",
        "sum(<<.Series>>",
        "x",
        "vector(1)",
    ),
    *('<<index .LabelValuesByName "pod">>', "a / on (b) c", "topk(1, x)", "(((((", "1+" * 90 + "1"),
    *("namespace", "pod", "ingress", "service", "namespaces", "3m", "container"),
)
KEYS = (
    *("rules", "externalRules", "resourceRules", "custom", "external", "resource", "default"),
    *(
        "existing",
        "cpu",
        "memory",
        "window",
        "containerQuery",
        "containerLabel",
        "prometheus",
        "url",
    ),
    *("seriesQuery", "seriesFilters", "is", "isNot", "resources", "template", "overrides", "name"),
    *("namespaced", "matches", "as", "metricsQuery", "group", "apiVersion", "kind", "data", "spec"),
    *("values", "chart", "source", "sources", "helm", "valuesObject", "port", "matchLabels"),
    *("matchExpressions", "key", "operator", "values", "config.yaml"),
)
scalars = st.one_of(
    st.sampled_from(PARTS),
    st.sampled_from(
        (None, True, False, 0, 1, -1, 2.5, float("nan"), "ConfigMap", "HelmRelease", "v1")
    ),
    st.text(max_size=20),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(KEYS), inner, max_size=8)
    ),
    max_leaves=40,
)
named = st.sampled_from(
    ("http_requests", "a", "x", "a_per_second", "", "b" * 300, "http_requests_total")
)


def read_all(document: object, name: str, selector: object) -> None:
    """Read a document as an import does, and ask for a metric of each type."""
    fields = Fields(document)
    rules = rules_in(fields)
    fields.refuse_the_rest()
    if rules is None:
        return
    resource_queries(rules)
    of_types: tuple[tuple[MetricType, Described | None], ...] = (
        ("Pods", None),
        ("Object", Described("", "Service", "front")),
        ("External", None),
    )
    for kind, described in of_types:
        found = resolve(rules, kind, name, namespace="shop", described=described, selector=selector)
        assert isinstance(found, Resolved | Unresolved)


@given(values, named, values)
@settings(max_examples=150)
def test_any_document_is_read_or_refused(document: object, name: str, selector: object) -> None:
    """With a query or a sentence for each metric, and no exception."""
    read_all(document, name, selector)
