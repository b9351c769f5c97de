"""Selectors: from JSON to text, and many of them against many pods."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.selectors import parse
from autoscaler.kubernetes.api import JsonObject
from autoscaler.kubernetes.discovery import selector_text
from autoscaler.kubernetes.pods import SelectorIndex

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
        assert set(found) == {text for text in selectors if parse(text).matches(labels)}


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
    """Sorted by key, values sorted, one form for each operator."""
    assert selector_text(selector) == text


def test_an_unknown_operator_is_refused() -> None:
    """What cannot be printed is not guessed."""
    with pytest.raises(ValueError, match="Gt"):
        selector_text({"matchExpressions": [{"key": "a", "operator": "Gt"}]})
