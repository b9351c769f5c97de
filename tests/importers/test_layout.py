"""What is written as a person would is the same document to a machine."""

import yaml
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.migrate.configuration import as_text
from tests.places import places

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.sampled_from(
        [
            "a: b",
            "sum(x)\n  / 2\n",
            "- x",
            "0 8 * * *",
            "{}",
            "#",
            "'",
            '"',
            "\t",
            "a\n\nb",
            "x" * 300,
        ]
    )
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), VALUES, min_size=1, max_size=5), st.data())
def test_any_document_is_written_as_it_is(document: dict[str, object], data: st.DataObject) -> None:
    some = st.lists(st.sampled_from(list(places(document))) | st.just(("targets", 3)), max_size=4)
    comments = {place: [data.draw(st.text())] for place in data.draw(some)}
    text = as_text(document, comments)
    assert yaml.safe_load(text) == document
    assert text.isascii()


def test_a_document_is_laid_out_for_people() -> None:
    metric = {"metric": {"name": "m"}, "target": {"type": "Value", "value": 3}}
    policy = {"type": "Pods", "value": 1, "periodSeconds": 60}
    document = {
        "queries": {"m": "sum(\n  x\n)"},
        "targets": [
            {
                "namespace": "shop",
                "metrics": [{"type": "External", "external": metric}],
                "behavior": {"scaleDown": {"policies": [policy, policy]}, "scaleUp": {}},
            }
        ],
    }
    comments = {
        ("targets", 0, "namespace"): ["the first key"],
        ("targets", 0, "metrics", 0): ["a metric"],
        ("targets", 0, "behavior", "none"): ["not there"],
    }
    assert (
        as_text(document, comments)
        == """\
queries:
  m: |-
    sum(
      x
    )
targets:
# the first key
- namespace: shop
  metrics:
  # a metric
  - type: External
    external: {metric: {name: m}, target: {type: Value, value: 3}}
  # not there
  behavior:
    scaleDown:
      policies:
      - {type: Pods, value: 1, periodSeconds: 60}
      - {type: Pods, value: 1, periodSeconds: 60}
    scaleUp: {}
"""
    )
