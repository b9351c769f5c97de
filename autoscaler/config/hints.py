"""What to write instead of what people write out of habit, in other formats or with units."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from autoscaler.config import durations


class Hint(NamedTuple):
    """What to say of a key that is not known; ``instead`` is the key to write, if it is one."""

    sentence: str
    instead: str | None = None


def _write(key: str, of: str) -> Hint:
    return Hint(f"this is of {of}; here it is `{key}`", key)


_KEDA = "a KEDA ScaledObject"
_V1 = "autoscaling/v1"
_V2BETA1 = "autoscaling/v2beta1"

_HINTS_OF_TARGET = {
    "spec": Hint("write the fields of the HorizontalPodAutoscaler's `spec` here directly"),
    "metadata": Hint(
        "write `namespace` here directly; the target has no name of its own", "namespace"
    ),
    "status": Hint("leave out the status of the HorizontalPodAutoscaler"),
    "name": Hint(
        "a target has the name of what it scales: write `scaleTargetRef` with apiVersion, kind and "
        "name"
    ),
    "query": Hint("PromQL belongs in `queries`, and is named by a metric in `metrics`"),
    "deployment": Hint(
        "write scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: NAME}",
        "scaleTargetRef",
    ),
    "min": Hint("here it is `minReplicas`", "minReplicas"),
    "max": Hint("here it is `maxReplicas`", "maxReplicas"),
    "targetCPUUtilizationPercentage": Hint(
        f"this is {_V1}; in v2 write `metrics` with {{type: Resource, resource: {{name: cpu, "
        "target: {type: Utilization, averageUtilization: N}}}"
    ),
    "minReplicaCount": _write("minReplicas", _KEDA),
    "maxReplicaCount": _write("maxReplicas", _KEDA),
    "pollingInterval": Hint(
        f"this is of {_KEDA}; here it is `syncPeriod`, with a unit such as 30s", "syncPeriod"
    ),
    "cooldownPeriod": Hint(
        f"this is of {_KEDA}; how long to wait before scaling down is said by "
        "`behavior.scaleDown.stabilizationWindowSeconds`"
    ),
    "triggers": Hint(
        f"this is of {_KEDA}; a prometheus trigger is PromQL in `queries` and a metric of type "
        "External in `metrics`",
        "metrics",
    ),
}
_HINTS = {
    "targetAverageUtilization": Hint(
        f"this is {_V2BETA1}; in v2 write target: {{type: Utilization, averageUtilization: N}}",
        "target",
    ),
    "targetAverageValue": Hint(
        f"this is {_V2BETA1}; in v2 write target: {{type: AverageValue, averageValue: N}}", "target"
    ),
    "targetValue": Hint(
        f"this is {_V2BETA1}; in v2 write target: {{type: Value, value: N}}", "target"
    ),
    "metricName": Hint(f"this is {_V2BETA1}; in v2 write metric: {{name: NAME}}", "metric"),
    "metricSelector": Hint(
        f"this is {_V2BETA1}; in v2 write metric: {{name: NAME, selector: SELECTOR}}", "metric"
    ),
    "password": Hint(
        "write the name of a file that holds it: basicAuth: {username: NAME, passwordFile: FILE}",
        "passwordFile",
    ),
    "bearerToken": Hint("write the name of a file that holds it: bearerTokenFile"),
    "token": Hint("write the name of a file that holds it: bearerTokenFile"),
}


def hint_on(key: str, *, of_target: bool, at_top: bool) -> Hint | None:
    """Return what to say of a key that is not known where it stands, if there is more to say."""
    if of_target:
        return _HINTS_OF_TARGET.get(key)
    return None if at_top else _HINTS.get(key)


def whole_number(key: str, given: object) -> str:
    """Say what is wrong with a value that should be a whole number, and what would be right."""
    sentence = "must be a whole number"
    if key.endswith("Seconds"):
        sentence += " of seconds"
    elif key == "averageUtilization":
        sentence += " of percent"
    if isinstance(given, float):
        return f"{sentence}{_of_fraction(key, given)}"
    return f"{sentence}{_of_text(key, given.strip())}" if isinstance(given, str) else sentence


def percent(location: Sequence[str | int], given: object) -> str:
    """Say what to write for a percentage where a quantity or a ratio belongs; else nothing."""
    form = (
        re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) *%", given) if isinstance(given, str) else None
    )
    if form is None or location[-1] not in {"value", "averageValue", "tolerance"}:
        return ""
    ratio = f"{float(form[1]) / 100:g}"
    if location[-1] == "tolerance":
        return f"; write {ratio} for {form[1]}%"
    if {"resource", "containerResource"} & set(location):
        return "; percent of the request are `averageUtilization`, without the sign"
    return (
        f"; write the number that the query is to give, {form[1]} or {ratio} (only Resource and "
        "ContainerResource metrics have percent, as `averageUtilization`)"
    )


def _of_fraction(key: str, given: float) -> str:
    if key == "averageUtilization" and 0 < given <= 1:
        return f": {round(given * 100)} for {given:g} of the request"
    return f": {given:.0f}" if given.is_integer() and abs(given) < 1e15 else ""


def _of_text(key: str, given: str) -> str:
    digits = given.lstrip("+-")
    if digits.isdecimal():
        if len(digits) > 1 and digits.startswith("0"):
            return ", without leading zeros"
        return ", without quotes"
    percent = re.fullmatch(r"([0-9]{1,9})(?:\.0*)? *(?:%|percent)", given)
    if percent is not None:
        return f", without the %: {int(percent[1])}"
    if key.endswith("Seconds"):
        return _of_duration(given)
    try:
        fraction = _of_fraction(key, float(given))
    except ValueError:
        return ""
    return f"{fraction}, without quotes" if fraction else ""


def _of_duration(given: str) -> str:
    try:
        seconds = durations.parse(durations.tidied(given) or given)
    except ValueError:
        return ""
    return f", without a unit: {seconds:.0f}" if seconds.is_integer() else ", without a unit"
