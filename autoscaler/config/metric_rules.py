"""The rules between fields of metrics and their queries."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from autoscaler.config import rule_forms as form
from autoscaler.config import spec_model as model
from autoscaler.config.documents import child
from autoscaler.config.models import Model
from autoscaler.config.rule_forms import Context, Fields, Rule
from autoscaler.config.settings import (
    DEFAULT_SERVER,
)
from autoscaler.core.spec import SOURCES

_LISTED, _UNLISTED = ("In", "NotIn"), ("Exists", "DoesNotExist")
"""The operators that take values, and the others."""
_EMPTY = form.properties(values={"type": ["array", "null"], "maxItems": 0})


def _other_source(metric: Fields, key: str) -> object:
    """Return the type, and the key of its source, where a source belongs to another type."""
    kind = metric.get("type")
    own = SOURCES.get(kind) if isinstance(kind, str) else None
    return (kind, own) if form.given(metric, key) and own not in {None, key} else None


def _source_rules(kind: str, key: str) -> Iterator[Rule]:
    yield Rule(
        key,
        lambda metric, _: metric.get("type") == kind and not form.given(metric, key),
        f"is missing: type {kind} needs its source here",
        form.implies(form.where("type", kind), form.has(key)),
        fixed_by=(key,),
    )
    yield Rule(
        key,
        lambda metric, _: _other_source(metric, key),
        "does not belong to type {}: keep only `{}`, or change the type",
        form.implies(form.where("type", *(one for one in SOURCES if one != kind)), form.null(key)),
    )


def _target_rules(*allowed: str, exclusive: bool = True) -> Sequence[Rule]:
    """Return the rules of a target's values; its type is not compared with them, as in the API."""
    either = " or ".join(allowed)
    forms = (f"{{type: {name[0].upper()}{name[1:]}, {name}: NUMBER}}" for name in allowed)
    taken = " or ".join(forms)

    def given(source: Fields) -> list[str] | None:
        target = source.get("target")
        if not isinstance(target, Mapping):
            return None
        return [name for name in allowed if target.get(name) is not None]

    def utilization(source: Fields) -> bool:
        kind, percent = (child(source, "target", key) for key in ("type", "averageUtilization"))
        other = "averageUtilization" not in allowed
        return other and (kind == "Utilization" or percent is not None)

    each = [form.has(name) for name in allowed]
    return (
        Rule(
            "target",
            lambda source, _: given(source) == [] and utilization(source) and taken,
            "Utilization is for Resource and ContainerResource metrics only: write {}",
        ),
        Rule(
            "target",
            lambda source, _: given(source) == [],
            f"{either} is missing: what to hold the metric at",
            form.properties(target={"oneOf" if exclusive else "anyOf": [*each]}),
            fixed_by=[f"target.{name}" for name in allowed],
        ),
        Rule(
            "target",
            lambda source, _: exclusive and len(given(source) or ()) > 1,
            f"takes one of {either}, not both",
        ),
    )


def _resources(context: Context) -> AbstractSet[str] | None:
    """Return the resources that have a query at each server of the target that is named rightly."""
    of_cluster = context.clusters or {}
    names = form.clusters_named(context.target) or of_cluster
    servers = [of_cluster.get(name) for name in names] or [None]
    if (own := child(context.target, "server")) is not None:
        servers = [str(own)]
    found = [(context.resources or {}).get(server or DEFAULT_SERVER) for server in servers]
    known = [resources for resources in found if resources is not None]
    return frozenset.intersection(*map(frozenset, known)) if known else None


def _zero_of_pods(source: Fields, context: Context) -> bool:
    """Return whether the query of a Pods metric, its own or by name, says so."""
    own, name = (child(source, "metric", key) for key in ("query", "name"))
    named = context.queries.get(name) if context.queries and isinstance(name, str) else None
    return form.is_zero(named if own is None else own)


METRIC_RULES: Mapping[type[Model], Sequence[Rule]] = {
    model.MetricSpec: (
        Rule(
            "activation",
            lambda metric, _: (
                form.given(metric, "activation") and form.one_of(metric, "type", *form.PER_POD)
            ),
            "belongs to metrics of type External and Object: those of type {} cannot wake a target",
            form.implies(form.where("type", *form.PER_POD), form.null("activation")),
        ),
        *(rule for kind, key in SOURCES.items() for rule in _source_rules(kind, key)),
    ),
    model.ResourceMetricSource: (
        *_target_rules("averageUtilization", "averageValue"),
        Rule(
            "name",
            lambda one, context: form.unknown_name(one, _resources(context)),
            "is a resource without a query: {}; add it to `resourceQueries`, or give the metric "
            "its own `query`",
            shown=True,
        ),
        Rule("query", lambda one, _: form.is_zero(one.get("query")), form.NO_ZERO_OF_PODS),
    ),
    model.PodsMetricSource: (
        *_target_rules("averageValue"),
        Rule("metric", _zero_of_pods, form.NO_ZERO_OF_PODS),
    ),
    model.ObjectMetricSource: _target_rules("value", "averageValue", exclusive=False),
    model.ExternalMetricSource: _target_rules("value", "averageValue"),
    model.LabelSelectorRequirement: (
        form.stated(
            "values",
            form.implies(form.where("operator", *_LISTED), {"not": _EMPTY}),
            "operator In or NotIn needs at least one value",
            fixed_by=("values",),
        ),
        form.stated(
            "values",
            form.implies(form.where("operator", *_UNLISTED), _EMPTY),
            "operator Exists or DoesNotExist takes no values; leave them out",
            shown=True,
        ),
    ),
    model.MetricIdentifier: (
        Rule(
            "name",
            lambda metric, context: form.unknown_name(metric, context.queries),
            "is no key of `queries`: {}; or give the metric its own `query`",
            shown=True,
        ),
    ),
}
