"""Files that hold something else than a configuration: manifests, rules of Prometheus, others."""

from dataclasses import replace

from autoscaler.config.error_messages import closest
from autoscaler.config.problems import MOST_LOOKED_AT, MOST_PROBLEMS, Problem
from autoscaler.config.settings import KEYS
from autoscaler.documents import TWICE, Location, Value, child, documents
from autoscaler.importers.manifests import Conversion, advice_on

_IS_A_LINE_MISSING = ", of which the first was read; between two manifests there is a line of ---"

SOMETHING_ELSE = "the file is something else: it has none of the keys of a configuration"
_OTHERS = {
    "groups": "these are rules for Prometheus, which reads them itself",
    "scrape_configs": "this is the configuration of Prometheus itself",
    "externalRules": "these are rules of prometheus-adapter; the PromQL of their `metricsQuery`, "
    "written out, is what `queries` holds",
    "resourceRules": "these are rules of prometheus-adapter; for cpu and memory the queries are "
    "built in",
    "$schema": "this is a JSON Schema, which is for editors",
}
"""Keys that tell what a file is, and what to say of it."""


def is_configuration(value: Value) -> bool:
    """Return whether a document is meant as one of ours, by its keys at the top."""
    if not isinstance(value, dict) or _looks_like_manifest(value):
        return False
    if not value or not KEYS.isdisjoint(value):
        return True
    # Only what is nearly one of them: of another file nothing is to be quoted.
    return any(closest(key, KEYS, cutoff=0.85) is not None for key in list(value)[:100])


def _looks_like_manifest(value: dict[str, Value]) -> bool:
    known = isinstance(value.get("kind"), str) and isinstance(value.get("apiVersion"), str)
    return known and not {"prometheus", "targets"} & value.keys()


def manifest_problems(
    file: str, text: bytes, conversion: Conversion, *, with_ready: bool
) -> list[Problem]:
    """Say what Kubernetes manifests a file holds, and what its autoscalers would be here.

    Nothing else is quoted from them.  ``conversion`` collects what they become; ``with_ready`` also
    writes it, at the last problem.
    """
    repeated: dict[int, Problem] = {}

    def report(_: Location, line: int, message: str) -> None:
        if message == TWICE and len(repeated) < MOST_PROBLEMS:
            repeated[line] = Problem(file, line, "", None, f"{message}{_IS_A_LINE_MISSING}")

    every = (
        (advice, document.line_of(advice.location))
        for document in documents(text, report)
        for advice in advice_on(document.value, shared=conversion.shared)
    )
    problems: list[Problem] = []
    other: list[Problem] = []
    for advice, line in every:
        problem = Problem(file, line, "", None, advice.message, advice.details)
        if advice.kind:
            conversion.add(advice)
            problems.append(problem)
        elif not other:
            other.append(problem)
        if len(problems) >= MOST_LOOKED_AT:
            break
    problems = [*(repeated.values() if problems else ()), *(problems or other)]
    if with_ready and problems:
        # The targets of all of them are one file, which stands at the last that is reported.
        last = min(len(problems), MOST_PROBLEMS) - 1
        problems[last] = replace(problems[last], ready=conversion.ready)
    return problems


def what_it_is(value: Value, of_what: str) -> str:
    """Say what a document is that is none of ours; ``of_what`` says what it should hold.

    Returns nothing for a text, and for a list that is nothing known.
    """
    if isinstance(value, list) and value and isinstance(child(value[0], "scaleTargetRef"), dict):
        return "this is a list of targets: write them under the key `targets`"
    if value is None:
        return f"the file is empty; {of_what}"
    if not isinstance(value, dict):
        return ""
    if isinstance(value.get("scaleTargetRef"), dict):
        return "this is one target: write it as an entry of the list `targets`"
    sentence = next((text for key, text in _OTHERS.items() if key in value), SOMETHING_ELSE)
    return f"{sentence}; {of_what}"
