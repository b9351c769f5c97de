"""Translates errors of pydantic to messages with the correct form."""

import difflib
import functools
import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from autoscaler.config.documents import Location, one_line
from autoscaler.config.models import fields_by_key, model_at
from autoscaler.config.problems import Finding
from autoscaler.config.settings import MainFile
from autoscaler.config.spec_model import TargetModel

_TYPES = {
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be a mapping of names to values",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "recursion_loop": "must not contain itself",
    "string_type": "must be a text",
}
_UNITS = {"averageUtilization": " of percent"}
_BOUNDS = {
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "too_short": "needs at least {min_length} entry; leave the key out for the default",
}

_PLACES: dict[type[BaseModel], str] = {
    MainFile: "at the top of the main file",
    TargetModel: "in the target itself",
}
"""The correct places of keys that are often misplaced."""

_MOST_ERRORS = 10_000
"""The most errors of one part: pydantic returns all or none, and takes a second for 100,000."""

_MOST_SPELT = 4
"""The most keys of a mapping that are listed in place of another kind of value."""

_MOST_LISTED = 8
"""The most keys that are listed next to the probable one."""

_LONGEST_COMPARED = 253
"""The most characters of a name that is compared with others; Kubernetes' have no more."""

_MOST_COMPARED = 500
"""The most names that a wrong one is compared with, which takes 20 microseconds each."""

_MOST_USES = 200
"""The most wrong names that are compared with the same `Names`: twice those reported."""

_WRITTEN = re.compile(r"`(\w+)")
"""The first key in a hint is the correct one."""

_Value = TypeVar("_Value")


def findings_of(error: ValidationError, root: type[BaseModel]) -> Iterator[Finding]:
    """Translate every error of a validation against ``root``, unless there are far too many."""
    if error.error_count() > _MOST_ERRORS:
        message = f"there are {error.error_count():,} mistakes in this, too many to tell them"
        yield Finding((), message, show_value=False)
        return
    for detail in error.errors(include_url=False):
        # pydantic also reports a list as too short if all of its entries exist but are faulty.
        if detail["type"] != "too_short" or not detail["input"]:
            yield _finding(detail, root)


class Names(dict[str, _Value]):
    """Values by names, prepared once for comparisons with many wrong names."""

    _uses = 0

    @functools.cached_property
    def ordered(self) -> Sequence[str]:
        """The names in order."""
        return sorted(self)

    @functools.cached_property
    def _by_fold(self) -> dict[str, str]:
        short = (name for name in self.ordered if len(name) <= _LONGEST_COMPARED)
        return dict(sorted({_folded(name): name for name in short}.items()))

    def closest(self, word: str, cutoff: float = 0.6) -> str | None:
        """Return the probably intended name; ``cutoff`` is from 0 to 1 (of `difflib`)."""
        self._uses += 1
        if len(word) > _LONGEST_COMPARED or self._uses > _MOST_USES:
            return None
        folded, near = _folded(word), list(self._by_fold)
        if len(near) > _MOST_COMPARED:
            first = max(0, bisect(near, folded) - _MOST_COMPARED // 2)
            near = near[first : first + _MOST_COMPARED]
        close = difflib.get_close_matches(folded, near, n=1, cutoff=cutoff)
        return self._by_fold[close[0]] if close else None


def suggestion(word: str, known: Iterable[str], limit: int = 20) -> str:
    """Return which known name is similar to an unknown one, and which names are known."""
    known = _names(known)
    names, close = known.ordered, known.closest(word)
    meant = f"did you mean `{close}`? " if close is not None else ""
    if not names:
        return f"{meant}none is known here"
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return f"{meant}known are {', '.join(one_line(name) for name in names[:limit])}{more}"


def closest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the probably intended name, as `Names.closest` does."""
    return _names(known).closest(word, cutoff)


def _names(known: Iterable[str]) -> Names[object]:
    return known if isinstance(known, Names) else Names(dict.fromkeys(known))


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _finding(detail: ErrorDetails, root: type[BaseModel]) -> Finding:
    location: Location = detail["loc"]
    if location[-1:] == ("[key]",):
        fault = detail.get("ctx", {}).get("error", "must be a text")
        return Finding(location[:-1], str(fault), show_value=False)
    if detail["type"] == "extra_forbidden":
        return _unknown_key(location, root)
    if detail["type"] == "missing":
        message = _missing(location, root)
        return Finding(location, message, show_value=False, missing=(location,))
    return Finding(location, _sentence(detail, root))


def _sentence(detail: ErrorDetails, root: type[BaseModel]) -> str:
    kind, context, given = detail["type"], detail.get("ctx", {}), detail.get("input")
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return _choice(given, re.findall(r"'(\w+)'", str(context["expected"])))
    if kind in {"int_type", "int_from_float"}:
        key = str(detail["loc"][-1])
        unit = " of seconds" if key.endswith("Seconds") else _UNITS.get(key, "")
        return f"must be a whole number{unit}"
    if kind == "string_type" and isinstance(given, int | float):
        read_as = "boolean" if isinstance(given, bool) else "number"
        return f"must be a text, and YAML reads this as a {read_as}: put it in quotes"
    if kind in _TYPES:
        return f"{_TYPES[kind]}{_form(kind, given, detail['loc'], root)}"
    # An unknown error type still reaches the operator, in pydantic's words.
    return _BOUNDS[kind].format(**context) if kind in _BOUNDS else detail["msg"]


def _form(kind: str, given: object, location: Location, root: type[BaseModel]) -> str:
    if kind in {"tuple_type", "list_type"} and isinstance(given, dict) and given:
        return ', each entry begins with "- "'
    if kind in {"tuple_type", "list_type"} and isinstance(given, str):
        return ": put it in [ ]"
    if kind == "dict_type" and location[-1] in {"queries", "resourceQueries"}:
        return ", each with its PromQL"
    model = model_at(root, location) if kind.startswith("model") and location else None
    if model is None:
        return ""
    keys = fields_by_key(model)
    needed = [key for key, field in keys.items() if field.is_required()]
    if isinstance(given, bool) and not needed:
        return "; write {} for its defaults" if given else "; leave it out"
    listed = keys if len(keys) <= _MOST_SPELT else needed
    more = "" if len(listed) == len(keys) else " and so on"
    return f" with {', '.join(listed)}{more}" if needed else ""


def _choice(given: object, choices: Sequence[str]) -> str:
    listed = f"{', '.join(choices[:-1])} or {choices[-1]}"
    lower = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(str(given).lower(), lower, n=1, cutoff=0.6)
    return f"must be {listed}" + (f"; did you mean {lower[close[0]]}?" if close else "")


def _unknown_key(location: Location, root: type[BaseModel]) -> Finding:
    key, around = str(location[-1]), location[:-1]
    model = model_at(root, around)
    if model is None:
        return Finding(location, "is not known here", show_value=False)
    known = fields_by_key(model)
    hints = _HINTS if around else _HINTS_AT_TOP
    hint = (_HINTS_OF_TARGET if "scaleTargetRef" in known else hints).get(key)
    if hint is not None:
        return _unknown(location, hint, *_WRITTEN.findall(hint)[:1])
    close = closest(key, known, cutoff=0.8)
    if close is None and "matchLabels" in known:
        return _unknown(location, "a label and its value belong in `matchLabels`")
    if close is None:
        for other, where in _PLACES.items():
            if key in fields_by_key(other):
                return _unknown(location, f"it belongs {where}")
    close = close or closest(key, known)
    if close is not None and len(known) > _MOST_LISTED:
        return _unknown(location, f"did you mean `{close}`?", close)
    return _unknown(location, suggestion(key, known), close)


def _unknown(location: Location, advice: str, *meant: str | None) -> Finding:
    places = tuple((*location[:-1], key) for key in meant if key)
    return Finding(location, f"is not known here: {advice}", show_value=False, meant=places)


def _missing(location: Location, root: type[BaseModel]) -> str:
    model = model_at(root, location[:-1])
    field = None if model is None else fields_by_key(model).get(str(location[-1]))
    description = ((field.description if field else None) or "").partition(";")[0]
    return f"is missing: {description[:1].lower()}{description[1:].rstrip('.')}"


def _keda(sentence: str) -> str:
    return f"this is of a KEDA ScaledObject; {sentence}"


def _v2beta1(key: str, form: str) -> str:
    return f"this is autoscaling/v2beta1; in v2 write `{key}: {{{form}}}`"


def _in_file(key: str) -> str:
    return f"write the name of a file that holds it: `{key}`"


_HINTS_OF_TARGET = {
    "spec": "write the fields of the HorizontalPodAutoscaler's `spec` here directly",
    "metadata": "write `namespace` here directly; the target has no name of its own",
    "status": "leave out the status of the HorizontalPodAutoscaler",
    "name": (
        "a target has the name of what it scales: write `scaleTargetRef` with apiVersion, kind and "
        "name"
    ),
    "query": "PromQL belongs in `queries`, and is named by a metric in `metrics`",
    "deployment": "write `scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: NAME}`",
    "min": "here it is `minReplicas`",
    "max": "here it is `maxReplicas`",
    "targetCPUUtilizationPercentage": (
        "this is autoscaling/v1; in v2 write `metrics` with {type: Resource, resource: {name: cpu, "
        "target: {type: Utilization, averageUtilization: N}}}"
    ),
    "minReplicaCount": _keda(
        "here it is `minReplicas`, of at least 1, and `idle: {}` next to it scales the target to 0"
    ),
    "maxReplicaCount": _keda("here it is `maxReplicas`"),
    "pollingInterval": _keda("here it is `syncPeriod`, with a unit such as 30s"),
    "cooldownPeriod": _keda("here it is `idle.after`, with a unit such as 300s"),
    "initialCooldownPeriod": _keda("here it is `idle.initially`, with a unit such as 300s"),
    "idleReplicaCount": _keda("here it is `idle.replicas`"),
    "advanced": _keda("what its horizontalPodAutoscalerConfig.behavior holds is `behavior`"),
    "enabled": "a target is on; `paused: true` stops it",
    "podDeletionCost": "write it as `scaleDown: {podDeletionCost: PROMQL}`",
    "triggers": _keda(
        "a prometheus trigger is PromQL in `queries` and a metric of type External in `metrics`"
    ),
}
_QUERIES = (
    "PromQL belongs in `queries`, each under the name that metrics use: queries: {NAME: PROMQL}"
)
_HINTS_AT_TOP = {
    "query": _QUERIES,
    "promql": _QUERIES,
    "expr": _QUERIES,
    "interval": "here it is `syncPeriod`, with a unit such as 15s",
    "triggers": _keda(
        "a prometheus trigger is PromQL in `queries` and a metric of type External in a target's "
        "`metrics`"
    ),
}
_HINTS = {
    "activationThreshold": _keda("here it is `activation` of the metric, next to its `type`"),
    "threshold": _keda("here it is `averageValue` of the metric's `target`, or `value`"),
    "metricType": _keda("here it is `type` of the metric's `target`"),
    "cooldownPeriod": _keda("here it is `after` of `idle`, with a unit such as 300s"),
    "initialCooldownPeriod": _keda("here it is `initially` of `idle`, with a unit such as 300s"),
    "metadata": _keda(
        "its query is PromQL in `queries`, and its threshold the `target` of a metric of type "
        "External"
    ),
    "podDeletionCost": "it belongs to the key `scaleDown` of the target, next to `behavior`",
    "stabilizationWindowSeconds": "it belongs to `scaleDown` or `scaleUp` of `behavior`",
    "policies": "they belong to `scaleDown` or `scaleUp` of `behavior`",
    "enabled": "leave it out: a written key is on, `{}` has the defaults",
    "ignoreNullValues": _keda("here it is `empty` of a query: fail or zero"),
    "targetAverageUtilization": _v2beta1("target", "type: Utilization, averageUtilization: N"),
    "targetAverageValue": _v2beta1("target", "type: AverageValue, averageValue: N"),
    "targetValue": _v2beta1("target", "type: Value, value: N"),
    "metricName": _v2beta1("metric", "name: NAME"),
    "metricSelector": _v2beta1("metric", "name: NAME, selector: SELECTOR"),
    "password": "write the name of a file that holds it: `passwordFile` of `basicAuth`",
    "bearerToken": _in_file("bearerTokenFile"),
    "token": _in_file("bearerTokenFile"),
    "clientSecret": _in_file("clientSecretFile"),
    "secretKey": _in_file("secretKeyFile"),
}
