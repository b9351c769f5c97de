"""What docs/guides/migrate.md shows is what the import makes."""

import re
from pathlib import Path

import pytest
import yaml

from autoscaler.migrate.adapter_queries import DescribedObject, MetricType, ResolvedQuery, resolve
from autoscaler.migrate.adapter_rules import rules_in
from autoscaler.migrate.fields import Fields
from tests.narrowing import known

TEXT = (Path(__file__).parents[2] / "docs" / "guides" / "migrate.md").read_text()
(RULES,) = re.findall(r"```yaml\n(# adapter-values.yaml\n.*?)```", TEXT, re.DOTALL)
ROWS = re.findall(
    r"^\| (Pods|Object|External) `(\w+)`(.*?) \| `(.*?)` \| (.*?) \|$", TEXT, re.MULTILINE
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}{row[2]}")
def test_each_row_of_the_document_is_the_result_of_an_import(
    row: tuple[MetricType, str, str, str, str],
) -> None:
    kind, name, more, promql, becomes = row
    labels = re.search(r"matchLabels: (\{.*\})", more)
    of = re.search(r"of an? (\w+)", more)
    groups = {"Ingress": "networking.k8s.io"}
    rules = known(rules_in(Fields(yaml.safe_load(RULES))))
    found = resolve(
        rules,
        kind,
        name,
        namespace="shop",
        described=DescribedObject(groups.get(of[1], ""), of[1], "front") if of else None,
        selector={"matchLabels": yaml.safe_load(labels[1])} if labels else None,
    )
    assert isinstance(found, ResolvedQuery), found
    assert found.query == promql
    expected = None if becomes == "none" else {"matchLabels": yaml.safe_load(becomes.strip("`"))}
    assert found.selector == expected


def test_the_document_shows_each_type() -> None:
    assert [row[0] for row in ROWS] == ["Pods", "Pods", "Object", "Object", "External"]
