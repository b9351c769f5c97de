"""The PromQL of config/alerts.yaml and config/dashboard.json, and what it names."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from autoscaler.telemetry import metric_catalog
from autoscaler.telemetry.metric_catalog import Family, MetricKind
from autoscaler.telemetry.target_text import PER_TARGET

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "config" / "alerts.yaml"
AS_HPA = ROOT / "config" / "hpa-metrics.yaml"
DASHBOARD = ROOT / "config" / "dashboard.json"
DOCUMENT = ROOT / "docs" / "reference" / "metrics.md"

_SERVICE = [variable for variable in vars(metric_catalog).values() if isinstance(variable, Family)]
OURS = {family.name: family for family in (*_SERVICE, *PER_TARGET)}

SCRAPED = frozenset({"job", "instance"})
"""Labels that Prometheus adds."""

_SUFFIXES = ("_bucket", "_count", "_sum")
_WORD = re.compile(r'"(?:\\.|[^"\\])*"|[a-zA-Z_][a-zA-Z0-9_]*')
_SELECTOR = re.compile(r"([a-z_][a-z0-9_]*)\s*\{([^{}]*)\}")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)")


def rules(file: Path = ALERTS) -> list[dict[str, Any]]:
    """Return the rules of a file, by default those that alert."""
    document = yaml.safe_load(file.read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def alert_expressions() -> dict[str, str]:
    """Return each alert's expression, by its name, and those within its texts."""
    found = {rule["alert"]: rule["expr"] for rule in rules()}
    for rule in rules():
        for text in rule["annotations"].values():
            for number, inner in enumerate(
                re.findall(r'printf "((?:autoscaler)(?:\\.|[^"\\])*)"', text)
            ):
                expression = inner.replace('\\"', '"').replace("%q", '"x"')
                found[f"{rule['alert']} text {number}"] = expression
    return found


def dashboard() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return document


def panels() -> Iterator[dict[str, Any]]:
    """Yield the panels that ask something."""
    yield from (panel for panel in dashboard()["panels"] if panel["type"] != "row")


def dashboard_expressions() -> dict[str, str]:
    """Return each expression of the dashboard by its panel's title, as Grafana would send it."""
    return {
        f"{panel['title']} {target['refId']}": target["expr"]
        .replace("$__rate_interval", "1m")
        .replace("$job", ".*")
        .replace("$target", ".*")
        for panel in panels()
        for target in panel["targets"]
    }


def metrics_in(expression: str) -> set[str]:
    words = (word for word in _WORD.findall(expression) if not word.startswith('"'))
    return {word for word in words if word.startswith(("autoscaler_", "process_"))}


def family_of(metric: str) -> Family | None:
    """Return the metric that a sample's name belongs to."""
    if metric in OURS:
        return OURS[metric] if OURS[metric].kind is not MetricKind.HISTOGRAM else None
    for suffix in _SUFFIXES:
        family = OURS.get(metric.removesuffix(suffix))
        if family is not None and family.kind is MetricKind.HISTOGRAM:
            return family
    return None


def unknown_labels(expression: str) -> set[str]:
    wrong = set()
    everything = set(SCRAPED)
    for metric in metrics_in(expression):
        everything |= labels_of(metric)
    for metric, matchers in _SELECTOR.findall(expression):
        names = {word for word in _WORD.findall(matchers) if not word.startswith('"')}
        wrong |= {f"{metric}{{{name}}}" for name in names - labels_of(metric)}
    for names in _GROUPING.findall(expression):
        wrong |= set(_WORD.findall(names)) - everything
    return wrong


def labels_of(metric: str) -> set[str]:
    """Return the labels that a sample of this name has once it is scraped."""
    family = family_of(metric)
    labels = set(SCRAPED)
    if family is not None:
        labels |= {*family.labels, *(("le",) if metric.endswith("_bucket") else ())}
        labels |= {"cluster"} if family.by_cluster else set()
    return labels
