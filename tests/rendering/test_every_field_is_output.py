"""Each output shows each field of the extensions, and of a decision about them.

A field that is added fails here until each output shows it, or an exception lists it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from pydantic.alias_generators import to_camel

from autoscaler.cli.json_schemas import json_schema
from autoscaler.config.comparison import compare
from autoscaler.config.written import as_written
from autoscaler.core.decision import (
    Activity,
    Bound,
    Bounds,
    BreakerHold,
    Decision,
    FallbackUse,
    ForeignChange,
    IdleStatus,
    MetricFailure,
    MetricResult,
    Outcome,
    QueryHold,
    Refill,
    Removal,
    RemovalReason,
    Removals,
    Rounding,
    Saturation,
    Zone,
)
from autoscaler.core.extensions import (
    Extensions,
    Fallback,
    FallbackBehavior,
    Idle,
    Mode,
    Pause,
    PauseMode,
    ReplicaRounding,
    Schedule,
)
from autoscaler.core.history import KnownBound
from autoscaler.core.observation import Gap, GapKind, HoldReading, Hpa, HpaStatus, Scale
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import HoldQuery, Query, Target
from autoscaler.persistence.record.changes import change_key
from autoscaler.rendering.differences import differences
from autoscaler.rendering.explanation import explain
from autoscaler.rendering.reasons import verdict
from autoscaler.rendering.record import whole
from autoscaler.telemetry.target_text import target_text
from autoscaler.web.pages.target import in_force
from tests.config.documents import loaded
from tests.core.builders import BASE, average, external, spec
from tests.core.entries import of_last
from tests.core.timeline import Timeline
from tests.telemetry.results import metrics_of

QUEUE = external(average("10"))
ENTRY = of_last(Timeline(spec(QUEUE), replicas=3).sync("0s", queue=30).sync("15s", queue=20))
DECISION = ENTRY.decision
(METRIC,) = DECISION.metrics
FAILS = replace(METRIC, outcome=MetricFailure("FailedGetExternalMetric", "no answer"))


def leaves(of: type, path: str = "") -> Iterator[str]:
    """Yield the fields of a dataclass, and of the dataclasses of these, by their paths."""
    hints = get_type_hints(of)
    for field in fields(of):
        kinds = [hints[field.name], *get_args(hints[field.name])]
        kind = next((kind for kind in kinds if is_dataclass(kind)), None)
        if isinstance(kind, type):
            yield from leaves(kind, f"{path}{field.name}.")
        else:
            yield path + field.name


# -- the configuration ---------------------------------------------------------------------------

NIGHT = Schedule("night", "0 22 * * *", "0 6 * * *", "UTC", 2, 9)
PAGE = Path("docs/reference/configuration.md").read_text()
CHANGES: Mapping[str, tuple[Any, Mapping[str, Any]]] = {
    "idle": (Idle(0, 60.0), {"replicas": 1, "after": 90.0, "initially": 30.0, "gradual": True}),
    "fallback": (
        Fallback(3),
        {"replicas": 4, "failure_threshold": 5, "behavior": FallbackBehavior.CURRENT_REPLICAS},
    ),
    "pause": (Pause(), {"mode": PauseMode.SCALE_UP, "replicas": 4}),
    "schedules": (
        NIGHT,
        {"name": "day", "start": "0 21 * * *", "end": "0 7 * * *", "timezone": "Europe/Berlin"}
        | {"min_replicas": 3, "max_replicas": 8, "gradual": True},
    ),
}
QUERIES: Mapping[str, Mapping[str, Any]] = {
    "minReplicasQuery": {"min_replicas_query": Query("q")},
    "maxReplicasQuery": {"max_replicas_query": Query("q")},
    "holdScaleDownQuery": {"hold": HoldQuery(Query("q"), condition=True)},
    "scaleDown": {"deletion_cost": Query("q")},
}
KEYS = {field.name: to_camel(field.name) for field in fields(Extensions)}
KEYS |= {"pause": "paused", "activations": "activation"} | {key: key for key in QUERIES}
FROM_ANNOTATIONS = {"pause.by", "pause.until"}
"""Annotations set these; the configuration has no key for them."""


def configured(**given: Any) -> Target:
    """Return a target with extensions, of which schedules are one."""
    given = {name: (value,) if name == "schedules" else value for name, value in given.items()}
    return Target("shop", spec(QUEUE), (Query("q"),), extensions=Extensions(**given))


CONFIGURED = {
    f"{name}.{field}": (
        configured(**{name: base}),
        configured(**{name: replace(base, **{field: other})}),
    )
    for name, (base, others) in CHANGES.items()
    for field, other in others.items()
} | {
    "activations": (
        configured(idle=Idle(), activations=(0.0,)),
        configured(idle=Idle(), activations=(5000.0,)),
    ),
    "replicas.multiple_of": (configured(), configured(replicas=ReplicaRounding(4))),
    "ignore_surge": (configured(), configured(ignore_surge=True)),
    "mode": (configured(), configured(mode=Mode.SHADOW)),
    **{key: (configured(), replace(configured(), **query)) for key, query in QUERIES.items()},
}


def page_of(target: Target) -> object:
    """Return the configuration as the page of a target shows it."""
    (known,) = metrics_of(SyncResult(target, DECISION)).states.known()
    return in_force(known, ENTRY.rules.flags, BASE)


def test_each_field_of_the_extensions_has_an_example() -> None:
    assert {*leaves(Extensions), *QUERIES} - FROM_ANNOTATIONS == CONFIGURED.keys()
    schema = str(json_schema()["$defs"])
    assert [
        key for key in KEYS.values() if f"'{key}'" not in schema or f"`{key}`" not in PAGE
    ] == []


@pytest.mark.parametrize("path", CONFIGURED)
def test_each_field_of_the_configuration_is_in_all_outputs(path: str, tmp_path: Path) -> None:
    before, after = CONFIGURED[path]
    assert f"'{KEYS[path.partition('.')[0]]}'" in str(as_written(after))
    assert as_written(before) != as_written(after)
    assert page_of(before) != page_of(after)
    config = loaded(tmp_path, "prometheus: {url: http://prometheus}\ntargets: []\n")
    old, new = (config.model_copy(update={"targets": (pool,)}) for pool in (before, after))
    (fields,) = compare(old, new).changed.values()
    assert all(KEYS[path.partition(".")[0]] in field.path for field in fields)
    assert differences(replace(ENTRY, target=before), replace(ENTRY, target=after))


# -- decisions -----------------------------------------------------------------------------------


def decided(**changes: Any) -> Decision:
    """Return a decision with other fields."""
    return replace(DECISION, **changes)


def failing(use: FallbackUse) -> Decision:
    """Return a decision whose metric fails, with the use of a fallback."""
    return decided(metrics=(replace(FAILS, fallback=use),), outcome=Outcome.PARTIAL)


IDLE = IdleStatus(Idle(), active=False, last_active=BASE - 90, until=BASE + 90)
BOUNDS = Bounds(
    Bound(1), Bound(9), of_min_query=KnownBound(1, BASE), of_max_query=KnownBound(9, BASE)
)
HOLD, REFILL = QueryHold(HoldReading(1, "{}")), Refill(BASE, BASE + 60)
BREAKER, SATURATION = BreakerHold("", BASE + 600, 2), Saturation(3, BASE - 3600, "TooManyReplicas")
REMOVALS = Removals(2, (Removal("web-1", RemovalReason.LOWEST_VALUE, 0, -1),))
ROUNDING = Rounding(2, 1, DECISION.desired)
FOREIGN, USE = ForeignChange(2, 3, "kubectl"), FallbackUse(Fallback(3), 3, 3)
PAUSE = Pause(PauseMode.SCALE_DOWN)
OFF = Scale(0, 0, "app=web")
NO_ANSWER = Gap(GapKind.ERROR, "no answer")

FIELDS: Mapping[str, tuple[Any, Mapping[str, Any]]] = {
    "pause": (PAUSE, {"mode": PauseMode.SCALE_UP, "by": "kubectl", "until": BASE + 60}),
    "idle": (
        IDLE,
        {"active": True, "last_active": BASE - 60, "until": BASE + 120}
        | {"asleep": True, "kept_awake": True},
    ),
    "breaker": (BREAKER, {"server": "mimir", "until": BASE + 660, "replicas": 1}),
    "hold": (HOLD, {"replicas": 2}),
    "saturation": (SATURATION, {"missing": 4, "since": BASE - 7200, "reason": "ScaleUpLimit"}),
    "foreign": (FOREIGN, {"before": 1, "after": 4, "manager": "", "reversal": True}),
    "bounds": (BOUNDS, {"missing": "no answer"}),
}
PARTS: Mapping[str, Bounds | QueryHold] = {
    "bounds.minimum.by": replace(BOUNDS, minimum=Bound(1, "x")),
    "bounds.maximum.by": replace(BOUNDS, maximum=Bound(9, "x")),
    "bounds.of_min_query.replicas": replace(BOUNDS, of_min_query=KnownBound(0, BASE)),
    "bounds.of_max_query.replicas": replace(BOUNDS, of_max_query=KnownBound(99, BASE)),
    "bounds.of_min_query.time": replace(BOUNDS, of_min_query=KnownBound(1, BASE - 60)),
    "bounds.of_max_query.time": replace(BOUNDS, of_max_query=KnownBound(9, BASE - 60)),
    "hold.reading.series": QueryHold(HoldReading(2, "{}")),
    "hold.reading.first": QueryHold(HoldReading(1, '{job="a"}')),
    "hold.reading.gap": QueryHold(HoldReading(gap=NO_ANSWER)),
}
UNKNOWN = replace(BOUNDS, missing="no answer")
SWITCHED_OFF = decided(zone=Zone.DISABLED, scale=OFF, desired=0)
CONTROLLED = decided(controller="an HPA")
ACTIVE = replace(METRIC, activity=Activity.ACTIVE)
DECIDED: dict[str, tuple[Decision, Decision]] = {
    f"{name}.{field}": (decided(**{name: base}), decided(**{name: replace(base, **{field: other})}))
    for name, (base, others) in FIELDS.items()
    for field, other in others.items()
}
DECIDED |= {
    path: (decided(**{name: FIELDS[name][0]}), decided(**{name: other}))
    for path, other in PARTS.items()
    for name in [path.partition(".")[0]]
}
DECIDED |= {
    "bounds.hold_down": (decided(bounds=UNKNOWN), decided(bounds=replace(UNKNOWN, hold_down=True))),
    "pause.replicas": (decided(pause=Pause()), decided(pause=Pause(replicas=3))),
    "paused_from": (decided(pause=PAUSE), decided(pause=PAUSE, paused_from=2)),
    "held_until": (decided(), decided(held_until=BASE + 60)),
    "shadow": (decided(), decided(shadow=True)),
    "rounding.multiple_of": (decided(), decided(rounding=Rounding(2, 1, DECISION.desired))),
    "rounding.before": (decided(rounding=ROUNDING), decided(rounding=replace(ROUNDING, before=2))),
    "rounding.after": (decided(rounding=ROUNDING), decided(rounding=replace(ROUNDING, after=4))),
    "removals.count": (decided(removals=REMOVALS), decided(removals=replace(REMOVALS, count=3))),
    "removals.pods": (decided(removals=REMOVALS), decided(removals=replace(REMOVALS, pods=()))),
    "removals.gap": (
        decided(removals=REMOVALS),
        decided(removals=replace(REMOVALS, gap=NO_ANSWER)),
    ),
    "controller": (decided(), CONTROLLED),
    "unchecked": (
        decided(controller="an HPA"),
        decided(controller="an HPA", unchecked="forbidden"),
    ),
    "taken": (decided(controller="an HPA"), decided(controller="an HPA", taken=True)),
    "hold_refill": (decided(), decided(hold_refill=REFILL)),
    "hpa": (decided(), decided(hpa=Hpa("web", statuses=(HpaStatus(BASE, 3, 5),)))),
    "wanted_by": (SWITCHED_OFF, replace(SWITCHED_OFF, wanted_by=QUEUE)),
    "metrics.refill": (decided(), decided(metrics=(replace(METRIC, refill=REFILL),))),
    "metrics.activity": (decided(idle=IDLE), decided(idle=IDLE, metrics=(ACTIVE,))),
    "metrics.fallback.syncs": (failing(USE), failing(replace(USE, syncs=4))),
    "metrics.fallback.proposal": (failing(USE), failing(replace(USE, proposal=4))),
}


def of_target(decision: Decision) -> SyncResult:
    """Return the result of a target that has a query for each bound."""
    query = Query("q")
    target = replace(
        ENTRY.rules.target,
        min_replicas_query=query,
        max_replicas_query=query,
        deletion_cost=query,
    )
    return SyncResult(target, decision)


def gauges_of(decision: Decision) -> bytes:
    """Return the metrics of a decision."""
    return b"".join(target_text(metrics_of(of_target(decision)).states.rows(), openmetrics=False))


OUTPUTS: Mapping[str, Callable[[Decision], object]] = {
    "the sentence": lambda decision: verdict(of_target(decision)),
    "the explanation": lambda decision: explain(of_target(decision)),
    "the API": lambda decision: whole(of_target(decision)).document(),
    "the metrics": gauges_of,
    "the record": lambda decision: change_key(of_target(decision)),
}


SENTENCE, EXPLANATION, API, METRICS, RECORD = OUTPUTS
LEFT_OUT: Mapping[str, frozenset[str]] = {
    path: frozenset(outputs)
    for paths, outputs in (
        # The count is in the sentence of what is done, and the pause in all of them.
        (["pause.replicas"], [SENTENCE, EXPLANATION, METRICS]),
        (["pause.by", "pause.until", "paused_from", "idle.kept_awake"], [METRICS]),
        # This changes at every sync: the record keeps only what begins or ends.
        (["idle.active", "idle.until"], [METRICS, RECORD]),
        (["idle.last_active"], [SENTENCE, METRICS, RECORD]),
        (["bounds.minimum.by", "bounds.maximum.by"], [SENTENCE, METRICS]),
        (["bounds.missing"], [METRICS]),
        (["bounds.hold_down"], [SENTENCE, API, METRICS, RECORD]),
        (["bounds.of_min_query", "bounds.of_max_query"], [SENTENCE, API, METRICS, RECORD]),
        (["hold.reading.series", "hold.reading.first"], [METRICS, RECORD]),
        (["hold.replicas"], [METRICS]),
        (["hold_refill"], [SENTENCE, API]),
        (["breaker.server", "breaker.until", "breaker.replicas"], [METRICS, RECORD]),
        (["saturation.missing", "saturation.reason"], [SENTENCE, API, RECORD]),
        (["saturation.since"], [SENTENCE, API, METRICS, RECORD]),
        (["foreign.before", "foreign.after"], [SENTENCE, METRICS]),
        (["foreign.manager", "foreign.reversal"], [SENTENCE, METRICS]),
        (["hpa"], [SENTENCE, METRICS]),
        (["unchecked"], [METRICS, RECORD]),
        (["taken"], [SENTENCE, EXPLANATION, API, RECORD]),
        (["metrics.refill", "metrics.activity"], [SENTENCE]),
        (["metrics.fallback.syncs"], [METRICS, RECORD]),
        (["metrics.fallback.proposal"], [RECORD]),
        (["rounding"], [METRICS]),
        (["rounding.before", "rounding.after"], [RECORD]),
        # Each scale-down is recorded anyway.
        (["removals"], [METRICS, RECORD]),
    )
    for path in paths
}
"""The outputs that need not show a field; at least one output shows each."""
OF_THE_HPA = {
    *("time", "stamp", "zone", "outcome", "scale", "min_replicas", "max_replicas", "tolerance"),
    *("desired", "rescale", "reason", "metrics", "combination", "stabilization", "limit"),
    *("conditions", "events", "written"),
}
"""The fields of a decision that a target without extensions has too."""
OF_A_METRIC = {"metric", "name", "reading", "outcome"}
ELSEWHERE = {"idle.idle", "metrics.fallback.fallback", "bounds.minimum", "bounds.maximum"}
"""Fields of the configuration, and counts that are fields of the decision too."""


def is_in(path: str, paths: Collection[str]) -> bool:
    """Return whether a field is one of these, or part of one."""
    return any(path == other or path.startswith(f"{other}.") for other in paths)


def test_each_field_of_a_decision_has_an_example() -> None:
    of_decision = {path for path in leaves(Decision) if not is_in(path, OF_THE_HPA)}
    of_metric = {path for path in leaves(MetricResult) if not is_in(path, OF_A_METRIC)}
    paths = of_decision | {f"metrics.{path}" for path in of_metric}
    assert [path for path in paths if not is_in(path, ELSEWHERE | DECIDED.keys())] == []


@pytest.mark.parametrize("path", DECIDED)
def test_each_field_of_a_decision_is_in_all_outputs(path: str) -> None:
    before, after = DECIDED[path]
    shown_in = {name for name, output in OUTPUTS.items() if output(before) != output(after)}
    assert shown_in
    left_out = [outputs for field, outputs in LEFT_OUT.items() if is_in(path, [field])]
    assert shown_in == OUTPUTS.keys() - frozenset[str]().union(*left_out)
    if RECORD in shown_in:
        assert differences(replace(ENTRY, decision=before), replace(ENTRY, decision=after))
