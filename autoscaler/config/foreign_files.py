"""Files that hold something else than a configuration, and what they hold."""

from collections.abc import Set as AbstractSet

from autoscaler.config.document import Value, child, documents, place_of
from autoscaler.config.error_messages import closest
from autoscaler.config.manifests import advice_on
from autoscaler.config.problems import Problem

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


def is_configuration(value: Value, keys: AbstractSet[str]) -> bool:
    """Tell whether a document is meant as one of ours, by its keys at the top."""
    if not isinstance(value, dict) or _looks_like_manifest(value):
        return False
    if not value or not keys.isdisjoint(value):
        return True
    # Only what is nearly one of them: of another file nothing is to be quoted.
    return any(closest(key, keys, cutoff=0.85) is not None for key in list(value)[:100])


def _looks_like_manifest(value: dict[str, Value]) -> bool:
    known = isinstance(value.get("kind"), str) and isinstance(value.get("apiVersion"), str)
    return known and not {"prometheus", "targets"} & value.keys()


def manifest_problems(file: str, text: str) -> list[Problem]:
    """Say what Kubernetes manifests a file holds, and what its autoscalers would be here.

    Nothing else is quoted from them.
    """
    told = [
        (advice, place_of(advice.location, document.places).line)
        for document in documents(text)
        for advice in advice_on(document.value)
    ]
    autoscalers = [(advice, line) for advice, line in told if advice.kind]
    return [
        Problem(file, line, "", None, advice.message, advice.details, advice.ready)
        for advice, line in autoscalers or told[:1]
    ]


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
    sentence = next((said for key, said in _OTHERS.items() if key in value), SOMETHING_ELSE)
    return f"{sentence}; {of_what}"
