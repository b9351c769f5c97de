"""ScaledObjects as people wrote them: converted, or refused for a right reason."""

import re
from pathlib import Path

import pytest

from autoscaler.config import ConfigError
from autoscaler.migrate.fields import KeyOutcome
from tests.importers.keda.converting import Converted, converted, loaded

CORPUS = Path(__file__).resolve().parents[4] / "shared" / "corpus" / "scaledobject"
_READ = {"prometheus", "cpu", "memory", "cron"}
_RIGHT = re.compile(
    r"placeholder|has no scheme|`deploymentName`|is required|API server refuses|KEDA requires"
    r"|names no workload|is not in the input|no name of Kubernetes|nothing runs any more"
)
"""Of what is lost in those whose triggers are all read."""


def files() -> list[Path]:
    """Return the manifests, none where they do not stand beside the checkout."""
    return sorted(CORPUS.glob("*.yaml"))


def all_are_read(text: str) -> bool:
    """Return whether a file has ScaledObjects only with triggers of the kinds that are read."""
    kinds = set(re.findall(r"^\s*(?:- )?type: *['\"]?([a-z-]+)['\"]?", text, re.MULTILINE))
    return "kind: ScaledObject" in text and bool(kinds) and kinds <= _READ


def is_valid(result: Converted, folder: Path) -> bool:
    """Return whether there is a target, and the configuration is valid."""
    try:
        loaded(result, folder)
    except ConfigError:
        return False
    return bool(result.conversion.written)


@pytest.mark.skipif(not files(), reason=f"needs the manifests in {CORPUS}")
def test_manifests_as_people_wrote_them(tmp_path: Path) -> None:
    """Of those whose triggers are all read every one is valid, or lacks what is named."""
    # What signs in stands in files of its own.
    texts = [path.read_text() for path in files()]
    shared = [one for one in texts if re.search(r"^kind: (Cluster)?TriggerAuth", one, re.MULTILINE)]
    shared = [one for one in shared if "kind: ScaledObject" not in one]
    judged, good, wrong = 0, 0, []
    for path in files():
        text = path.read_text()
        result = converted(text, *(one for one in shared if one != text))
        for said in result.said(KeyOutcome.REFUSED).values():
            assert said
        if not all_are_read(text):
            continue
        judged += 1
        if is_valid(result, tmp_path):
            good += 1
            continue
        every = (*result.refusals, *result.said(KeyOutcome.REFUSED).values())
        if not any(_RIGHT.search(why) for why in every):
            wrong.append((path.name, every))
    assert wrong == []
    assert good > 0.7 * judged > 30, (good, judged)
