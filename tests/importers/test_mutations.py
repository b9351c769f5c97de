"""Manifests that are broken in many ways end in sentences, soon."""

import time
from pathlib import Path

import pytest
import yaml

from autoscaler.config.documents import read
from tests.importers import test_manifests
from tests.importers.accounting import unaccounted
from tests.importers.importing import imported
from tests.importers.keda.converting import WHOLE
from tests.importers.mutations import mutated
from tests.importers.test_horizontal_pod_autoscalers import RULES

DOCUMENTS = [
    document
    for text in (*(test_manifests.V2, test_manifests.V2BETA1, test_manifests.V1, WHOLE, RULES),)
    for document in yaml.safe_load_all(text)
]
PARTS, OF_A_PART = 4, 500
LONGEST = 0.05
"""Seconds of the process for a document; a busy machine makes no difference to these."""


@pytest.mark.parametrize("part", range(PARTS))
def test_any_manifest_is_imported_or_refused_soon(tmp_path: Path, part: int) -> None:
    slow = 0
    for number in range(part * OF_A_PART, (part + 1) * OF_A_PART):
        text = mutated(DOCUMENTS, number)
        (tmp_path / "out" / "autoscaler.yaml").unlink(missing_ok=True)
        begin = time.process_time()
        ran = imported(tmp_path, text.encode(errors="replace"), RULES)
        slow += time.process_time() - begin > LONGEST
        if ran.code == 0:
            assert ran.config.targets, number
        elif ran.text:
            assert ran.document["targets"], number
        own = [source for source in ran.report["sources"] if source["file"].endswith("/0.yaml")]
        if len(own) == 1 and own[0]["outcome"] not in {"refused", "other"}:
            value = read(text, lambda *_: None)
            assert unaccounted(value, own[0]["keys"]) == [], number
    # A collection of garbage may fall into one.
    assert slow <= OF_A_PART / 100
