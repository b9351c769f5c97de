"""The scalingModifiers of a ScaledObject -> one metric of a query that computes their formula.

https://keda.sh/docs/latest/concepts/scaling-deployments/#scaling-modifiers
"""

from autoscaler.core.text import printable
from autoscaler.importers.drafts import Query, Shared
from autoscaler.importers.fields import Fields
from autoscaler.importers.keda.formulas import promql_of
from autoscaler.importers.keda.metadata import parsed
from autoscaler.importers.keda.prometheus_triggers import external
from autoscaler.importers.keda.triggers import Triggers
from autoscaler.importers.values import not_filled_in, placeholder

_LONGEST_SHOWN = 300
_NO_FORMULA = "is required: KEDA refuses scalingModifiers without it"
_NO_TARGET = "must be a number above 0, as KEDA requires: write what one replica is to bear"
_NOT_EXTERNAL = "KEDA refuses it for a formula: write AverageValue or Value"
_SEVERAL_SERVERS = "combines triggers of several servers, which no query does"
_INSTEAD = "write it as one query in PromQL, and a metric of type External on it"
_DIFFERENT = "it is computed in one query; where its value is NaN, nothing goes down"


def add_composite(modifiers: Fields, triggers: Triggers, shared: Shared) -> None:
    """Add the metric of the formula, which stands for all prometheus triggers, as the first."""
    formula = modifiers.get("formula")
    target = _number(modifiers, "target")
    activation = _number(modifiers, "activationTarget")
    if modifiers.peek("target") is None or (target is not None and target <= 0):
        modifiers.refused("target", why=_NO_TARGET)
        target = None
    kind = modifiers.get("metricType") or "AverageValue"
    if kind not in ("AverageValue", "Value"):
        modifiers.refused("metricType", why=_NOT_EXTERNAL)
        kind = "AverageValue"
    if not isinstance(formula, str) or not formula.strip():
        modifiers.refused("formula", why=_NO_FORMULA)
        return
    query = _query(modifiers, formula, triggers)
    if query is None:
        return
    said = f"the formula {printable(formula, _LONGEST_SHOWN)}"
    metric = external(shared.query(triggers.name, query, said), kind, target)
    if activation:
        metric["activation"] = activation
    triggers.metrics.insert(0, metric)


def _query(modifiers: Fields, formula: str, triggers: Triggers) -> Query | None:
    why, promql = "", ""
    try:
        promql = promql_of(formula, triggers.operands)
    except ValueError as error:
        why = str(error)
    if why or len(triggers.servers) > 1:
        modifiers.refused("formula", why=f"{why or _SEVERAL_SERVERS}: {_INSTEAD}")
        triggers.lost.append("scalingModifiers")
        return None
    modifiers.different("formula", why=_DIFFERENT)
    server = "".join(triggers.servers)
    return {"query": promql, "server": server} if server else promql


def _number(modifiers: Fields, key: str) -> int | float | None:
    """Return a number; None where there is none, and for what is none, which is refused."""
    value = modifiers.get(key)
    if value is None:
        return None
    number = parsed(value if isinstance(value, str) else repr(value))
    if number is None:
        found = placeholder(value)
        modifiers.refused(key, why=not_filled_in(found) if found else "is no number")
    return number
