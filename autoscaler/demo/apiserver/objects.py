"""Kubernetes objects as JSON: their type, time stamps, names and selectors."""

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from autoscaler.core.selectors import LabelSelector, Operator, Requirement

KubeObject = dict[str, Any]
"""A JSON object; `Any` because its shape is its kind's, and a client may send any."""

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def timestamp(wall: float) -> str:
    """Write Unix seconds as `metav1.Time` does, to the second."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def random_suffix() -> str:
    """Return five letters as the API server appends them to `generateName`."""
    return "".join(random.choices(_SUFFIX_LETTERS, k=5))  # noqa: S311 - a name, not a secret


def meta(obj: Mapping[str, Any]) -> KubeObject:
    """Return the metadata, empty when there is none."""
    found = obj.get("metadata")
    return found if isinstance(found, dict) else {}


def labels(obj: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels."""
    return meta(obj).get("labels") or {}


def key(obj: Mapping[str, Any]) -> tuple[str, str]:
    """Return namespace (empty for a cluster-wide object) and name."""
    return meta(obj).get("namespace", ""), meta(obj).get("name", "")


def workload_selector(obj: Mapping[str, Any]) -> LabelSelector:
    """Read `spec.selector`: a LabelSelector, or the plain map of a ReplicationController."""
    raw = (obj.get("spec") or {}).get("selector") or {}
    if obj.get("kind") == "ReplicationController":
        return LabelSelector(tuple(raw.items()))
    return LabelSelector(
        tuple((raw.get("matchLabels") or {}).items()),
        tuple(
            Requirement(term["key"], Operator(term["operator"]), tuple(term.get("values") or ()))
            for term in raw.get("matchExpressions") or ()
        ),
    )


def selector_text(selector: LabelSelector) -> str:
    """Write a selector as `status.selector` of a Scale holds it: conditions sorted by key."""
    terms = [(key, f"{key}={value}") for key, value in selector.match_labels]
    for requirement in selector.match_expressions:
        values = ",".join(sorted(requirement.values))
        form = {
            Operator.IN: f"{requirement.key} in ({values})",
            Operator.NOT_IN: f"{requirement.key} notin ({values})",
            Operator.EXISTS: requirement.key,
            Operator.DOES_NOT_EXIST: f"!{requirement.key}",
        }[requirement.operator]
        terms.append((requirement.key, form))
    return ",".join(form for _, form in sorted(terms, key=lambda term: term[0]))


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Return whether the pod's Ready condition is true."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
