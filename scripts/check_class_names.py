#!/usr/bin/env python3
"""Check that a class name stands once in the product, whatever its leading underscore.

A reader who meets a name then knows which class it is, and finds it by a search.
"""

import ast
import sys
from collections import defaultdict
from pathlib import Path

KUBERNETES = "a type of autoscaling/v2 in the core, and its model in the configuration"
ANSWERS = "what the core or the record has, and its model in the answers of the API"
PAIRS = {
    "HorizontalPodAutoscalerSpec": KUBERNETES,
    "LabelSelector": KUBERNETES,
    "MetricIdentifier": KUBERNETES,
    "MetricTarget": KUBERNETES,
    "ScaleTargetRef": KUBERNETES,
    "BreakerHold": ANSWERS,
    "Change": ANSWERS,
    "Decision": ANSWERS,
    "Fallback": ANSWERS,
    "Idle": ANSWERS,
    "Lapse": ANSWERS,
    "Pause": ANSWERS,
    "Query": ANSWERS,
    "Schedule": ANSWERS,
    "TargetState": ANSWERS,
}
"""Names that two classes share, and why."""

NOT_YET = frozenset(
    {
        "Changes",
        "Failure",
        "Place",
        "Record",
        "Sample",
        "Window",
    }
)
"""Names that stand several times and are to be renamed; none may be added."""


def class_names(folder: Path) -> dict[str, list[str]]:
    """Return where each class name stands, as `file:line`."""
    places: dict[str, list[str]] = defaultdict(list)
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(f"{file}:{node.lineno}")
    return places


def complaints(classes: dict[str, list[str]]) -> list[str]:
    """Return a sentence for each name that stands too often, and for each exception without use."""
    sentences = []
    for name, places in sorted(classes.items()):
        most = 2 if name in PAIRS else 1
        if len(places) > most and name not in NOT_YET:
            sentences.append(f"class {name} stands {len(places)} times: {', '.join(places)}")
    unused = [name for name in PAIRS if len(classes.get(name, ())) < 2]
    return [*sentences, *(f"class {name} needs no exception here" for name in unused)]


def main() -> int:
    """Print what is wrong; the exit code is 1 if anything is."""
    sentences = complaints(class_names(Path("autoscaler")))
    print("\n".join(sentences) or "every class name stands once")
    return 1 if sentences else 0


if __name__ == "__main__":
    sys.exit(main())
