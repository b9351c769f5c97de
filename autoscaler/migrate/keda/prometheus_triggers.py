"""A trigger of type prometheus -> a query, and a metric of type External.

https://keda.sh/docs/latest/scalers/prometheus/
"""

from dataclasses import dataclass

from autoscaler.migrate.fields import Fields
from autoscaler.migrate.keda.metadata import is_false, number_of, text_of
from autoscaler.migrate.keda.promql import is_one_value
from autoscaler.migrate.promql_trees import (
    A_RATIO_IS_DIVIDED,
    is_ratio,
    may_be_nan,
    parse,
    tidied,
)
from autoscaler.migrate.values import not_filled_in, placeholder

KIND = "prometheus"
NULLS = (
    "KEDA takes an empty answer, NaN and infinity for 0 (ignoreNullValues): leave out `empty` and "
    "`nan` where they may be an outage, so that they scale nothing down"
)
RATIO = A_RATIO_IS_DIVIDED.format("KEDA")
_SMALLEST = 0.001
"""Of a threshold, in KEDA and here: a thousandth."""
_NULLS_IN_SHORT = "KEDA takes an empty answer for 0, and so it is here by `empty: zero`"
_NAN_IN_SHORT = "NaN is 0, too, by `nan: zero`; with infinity, 0 in KEDA, nothing goes down here"
_SEVERAL = "KEDA fails when the query returns several elements; here they are added up"
_REQUIRED = "is required: KEDA fails without it"
_TOO_SMALL = (
    "must be 0.001 or more: Kubernetes refuses the HPA that KEDA makes of it; write what one "
    "replica is to bear"
)
_NOT_EXTERNAL = "KEDA refuses it for a prometheus trigger: write AverageValue or Value"


@dataclass(frozen=True)
class Question:
    """The query of a trigger, and how KEDA reads its answer."""

    promql: str
    nulls_are_zero: bool
    may_be_nan: bool
    is_ratio: bool

    @property
    def words(self) -> dict[str, object]:
        """What is to be said of missing data in an entry of `queries`."""
        if not self.nulls_are_zero:
            return {}
        return {"empty": "zero", **({"nan": "zero"} if self.may_be_nan else {})}


def question_of(metadata: Fields) -> Question | None:
    """Read the query of a trigger; None where there is none, which is refused."""
    # It is true unless something else is said.
    nulls_are_zero = not is_false(text_of(metadata, "ignoreNullValues"))
    text = text_of(metadata, "query")
    if text is None:
        metadata.refused("query", why=_REQUIRED, kind=KIND)
        return None
    promql = tidied(text) if "\n" in text else text
    nan, one, ratio, problem = True, False, False, ""
    try:
        tree = parse(promql)
    except ValueError as error:
        problem = f"its PromQL is not understood: {error}; correct it, and delete this entry"
    else:
        nan, one, ratio = may_be_nan(tree), is_one_value(tree), is_ratio(tree)
    if found := placeholder(text):
        problem = not_filled_in(found)
    if problem:
        metadata.refused("query", why=problem, kind=KIND)
    else:
        said = [_NULLS_IN_SHORT, *([_NAN_IN_SHORT] if nan else [])] if nulls_are_zero else []
        why = "; ".join([*said, *([] if one else [_SEVERAL])])
        if why:
            metadata.different("query", why=why)
    return Question(promql, nulls_are_zero, nan, ratio)


def target_of(trigger: Fields, question: Question) -> tuple[str, int | float | None]:
    """Return the type of the metric's target and its value; None for one that is refused."""
    metadata = trigger.within("metadata")
    kind = trigger.get("metricType") or "AverageValue"
    if kind not in ("AverageValue", "Value"):
        trigger.refused("metricType", why=_NOT_EXTERNAL, kind=KIND)
    if text_of(metadata, "threshold") is None:
        metadata.refused("threshold", why=_REQUIRED, kind=KIND)
        return str(kind), None
    number = number_of(metadata, "threshold", KIND)
    if number is not None and number < _SMALLEST:
        metadata.refused("threshold", why=_TOO_SMALL, kind=KIND)
        return str(kind), None
    if number is not None and kind == "AverageValue" and question.is_ratio:
        metadata.different("threshold", why=RATIO)
    return str(kind), number


def external(name: str, kind: object, value: object) -> dict[str, object]:
    """Write a metric of type External; without a value its target is left to be written."""
    key = "value" if kind == "Value" else "averageValue"
    target = {"type": kind, **({} if value is None else {key: value})}
    return {"type": "External", "external": {"metric": {"name": name}, "target": target}}
