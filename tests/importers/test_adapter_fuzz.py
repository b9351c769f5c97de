"""No document of rules makes the reading of it fail or last."""

import time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.config import documents
from autoscaler.migrate.adapter_queries import (
    DescribedObject,
    MetricType,
    ResolvedQuery,
    UnresolvedQuery,
    resolve,
    resource_queries,
)
from autoscaler.migrate.adapter_rules import rules_in
from autoscaler.migrate.fields import Fields
from tests.importers.mutations import mutated
from tests.importers.test_adapter_rules import DOCUMENTS as FORMS
from tests.importers.test_adapter_rules import RULE

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
_WORDS = """
rules externalRules resourceRules custom external resource default existing cpu memory window
containerQuery containerLabel prometheus url seriesQuery seriesFilters is isNot resources template
overrides name namespaced matches as metricsQuery group apiVersion kind data spec values chart
source sources helm valuesObject port matchLabels matchExpressions key operator config.yaml
"""
KEYS = _WORDS.split()
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
    of_types: tuple[tuple[MetricType, DescribedObject | None], ...] = (
        ("Pods", None),
        ("Object", DescribedObject("", "Service", "front")),
        ("External", None),
    )
    for kind, described in of_types:
        found = resolve(rules, kind, name, namespace="shop", described=described, selector=selector)
        assert isinstance(found, ResolvedQuery | UnresolvedQuery)


@given(values, named, values)
@settings(max_examples=150)
def test_any_document_is_read_or_refused(document: object, name: str, selector: object) -> None:
    read_all(document, name, selector)


PATTERN = {
    **RULE,
    "seriesQuery": '{__name__=~"^http_.*",namespace!=""}',
    "seriesFilters": [{"isNot": "^http_x"}],
    "resources": {"template": "<<.Resource>>", "overrides": {"p": {"resource": "pod"}}},
}
DOCUMENTS: list[Any] = [{"rules": [PATTERN, PATTERN]}, *FORMS.values()]


def test_a_mutated_document_is_read_in_a_moment() -> None:
    """3,000 documents take less than 50 ms each; a slow one names its number."""
    for number in range(3_000):
        text = mutated(DOCUMENTS, number)
        # Other work of the machine makes a document slow, and not twice.
        took = min(seconds(text), seconds(text)) if (first := seconds(text)) > 0.03 else first
        assert took < 0.05, f"{number}: {text}"


def seconds(text: str) -> float:
    """Return the CPU time of reading the documents of a text, and a metric of each type."""
    begin = time.thread_time()
    for document in documents.documents(text):
        read_all(document.value, "requests_per_second", {"matchLabels": {"a": "b"}})
    return time.thread_time() - begin
