"""API defaulting equals Kubernetes' for every spec of the conformance vectors."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import JsonValue

from autoscaler.config import parse_spec, to_core
from tests.config.api_form import defaulted

VECTORS = Path(__file__).parent.parent / "conformance"


def scenarios() -> Iterator[tuple[str, dict[str, JsonValue], dict[str, JsonValue]]]:
    """Read name, spec and defaulted spec of every scenario."""
    for path in sorted(VECTORS.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                scenario = json.loads(line)
                yield scenario["name"], scenario["spec"], scenario["defaultedSpec"]


def test_defaulting_of_every_vector() -> None:
    """Each spec becomes exactly the defaulted spec, and defaulting that changes nothing."""
    count = 0
    for name, spec, expected in scenarios():
        assert defaulted(parse_spec(spec)) == expected, name
        assert defaulted(parse_spec(expected)) == expected, name
        assert to_core(parse_spec(spec)) == to_core(parse_spec(expected)), name
        count += 1
    assert count == 630
