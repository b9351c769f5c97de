"""The CustomResourceDefinition of PromqlAutoscaler is what the models and rules say."""

import runpy
from pathlib import Path

GENERATOR = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "custom_resource.py"))
MOST_BYTES = 100_000
"""Far below the 262,144 bytes of an annotation, in which `kubectl apply` keeps the whole."""


def test_the_committed_definition_is_of_these_models() -> None:
    text = GENERATOR["custom_resource_definition"]()
    assert text == GENERATOR["FILE"].read_text()
    assert len(text.encode()) < MOST_BYTES


def test_each_rule_for_an_api_server_has_a_sentence_without_places() -> None:
    text = GENERATOR["custom_resource_definition"]().replace("status: {}", "")
    assert "{}" not in text
