"""The words for a decision: names, numbers and sentences that people read."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest

from autoscaler.core.breaker import held_back
from autoscaler.core.classification import State
from autoscaler.core.decide import decide
from autoscaler.core.decision import Refill, Stabilization
from autoscaler.core.extensions import NO_EXTENSIONS, Extensions
from autoscaler.core.history import History, Recommendation
from autoscaler.core.observation import (
    Gap,
    GapKind,
    Observation,
    Pod,
    PodSamples,
    ReadFailure,
    Reading,
    Scale,
    Values,
)
from autoscaler.core.spec import (
    ExternalMetric,
    Flags,
    HorizontalPodAutoscalerSpec,
    LabelSelector,
    MetricSpec,
    Operator,
    Requirement,
    ResourceMetric,
    SelectPolicy,
)
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import Query, Target
from autoscaler.core.writes import AcceptedWrite, SkippedWrite, SkippedWriteReason, WriteFailure
from autoscaler.rendering import wording
from autoscaler.rendering.explanation import explain
from autoscaler.rendering.reasons import hold, verdict
from autoscaler.rendering.record import QuerySource, decision_metric, whole
from tests.core.builders import (
    BASE,
    FALSE,
    average,
    behavior,
    cpu,
    external,
    per_pod,
    percent_policy,
    pod,
    pods,
    pods_policy,
    rules,
    samples,
    spec,
    utilization,
    value,
    values,
)
from tests.tables import rows

ORDERS = external(
    average("10"), "rabbitmq_queue_messages_ready", LabelSelector((("queue", "orders"),))
)
QUEUE = external(average("10"))
REFUSED = Gap(GapKind.ERROR, "Prometheus http://prometheus:9090 refused the connection")


def synced(
    of: HorizontalPodAutoscalerSpec,
    replicas: int,
    *readings: Reading,
    of_pods: Sequence[Pod] | None = None,
    earlier: tuple[Recommendation, ...] = (),
    status: int | None = None,
    extensions: Extensions = NO_EXTENSIONS,
) -> SyncResult:
    """Decide once at `BASE`, and have the write taken."""
    scale = Scale(replicas, replicas if status is None else status, "app=web")
    listed = pods(replicas) if of_pods is None else tuple(of_pods)
    history = History(recommendations=earlier or (Recommendation(0, BASE - 3600),))
    seen = Observation(scale, listed, readings)
    decision, _ = decide(of, Flags(), seen, history, BASE, extensions=extensions)
    write = AcceptedWrite(scale) if decision.rescale else None
    return SyncResult(Target("shop", of, (), extensions=extensions), decision, write)


def unreadable() -> SyncResult:
    """Decide once without a scale."""
    seen = Observation(ReadFailure("the API server is away"), None, (values(1.0),))
    decision, _ = decide(spec(QUEUE), Flags(), seen, History(), BASE)
    return SyncResult(Target("shop", spec(QUEUE), ()), decision)


def behind_the_breaker(server: str) -> SyncResult:
    """Return a scale-down that the breaker holds."""
    free = behavior(down=rules(percent_policy(100), window=0))
    result = synced(spec(QUEUE, behavior=free), 8, values(10.0))
    held, _ = held_back(result.decision, History(), History(), server, BASE + 600)
    return SyncResult(result.target, held)


SLOW = behavior(up=rules(pods_policy(2, 60), window=0))
DOUBLE = behavior(up=rules(percent_policy(100, 60), window=0))
NEVER_UP = behavior(up=rules(pods_policy(2), window=0, select=SelectPolicy.DISABLED))
HELD = (Recommendation(8, BASE - 60),)
DOWN_AT_ONCE = behavior(down=rules(percent_policy(100), window=0))
BOTH_AT_ONCE = spec(QUEUE, external(average("10"), "mails"), behavior=DOWN_AT_ONCE)
WITH_TWO_PENDING = (
    *pods(3),
    *(pod(f"canary-{index}", phase="Pending", ready=FALSE) for index in range(2)),
)

RESULTS = {
    "breaker": behind_the_breaker(""),
    "breaker of a server": behind_the_breaker("mimir"),
    "above": synced(spec(ORDERS), 3, values(53.0)),
    "below": synced(spec(ORDERS), 2, values(5.0)),
    "stays": synced(spec(QUEUE), 1, values(10.0)),
    "all below": synced(spec(QUEUE, external(average("4"), "mails")), 3, values(9.0), values(1.0)),
    "doubling": synced(spec(QUEUE), 1, values(90.0)),
    "pods policy": synced(spec(QUEUE, behavior=SLOW), 1, values(90.0)),
    "percent policy": synced(spec(QUEUE, behavior=DOUBLE), 3, values(90.0)),
    "disabled": synced(spec(QUEUE, behavior=NEVER_UP), 1, values(90.0)),
    "maximum": synced(spec(QUEUE, maximum=5), 5, values(90.0)),
    "minimum": synced(spec(QUEUE), 1, values(0.0), earlier=(Recommendation(1, BASE - 60),)),
    "a peak above the maximum": synced(
        spec(QUEUE, maximum=8), 8, values(80.0), earlier=(Recommendation(10, BASE - 60),)
    ),
    "fewer in status": synced(spec(QUEUE, behavior=DOWN_AT_ONCE), 10, values(97.0), status=9),
    "more in status": synced(spec(QUEUE), 10, values(100.0), status=11),
    "few in status": synced(spec(QUEUE, behavior=DOWN_AT_ONCE), 20, values(120.0), status=5),
    "few pods": synced(
        spec(per_pod("100"), behavior=DOWN_AT_ONCE),
        10,
        PodSamples(samples(*[200_000] * 3)),
        of_pods=pods(3),
    ),
    "few in status for two": synced(BOTH_AT_ONCE, 20, values(30.0), values(120.0), status=5),
    "pending pods": synced(
        spec(cpu(utilization(50))),
        3,
        PodSamples(samples(900, 900, 900)),
        of_pods=WITH_TWO_PENDING,
    ),
    "few pods above": synced(
        spec(per_pod("100")), 3, PodSamples(samples(130_000, 130_000)), of_pods=pods(2)
    ),
    "no ready pod": synced(
        spec(external(value("10"))), 5, values(50.0), of_pods=(pod("p0", ready=FALSE),)
    ),
    "held": synced(spec(QUEUE), 8, values(30.0), earlier=HELD),
    "held above": synced(spec(QUEUE), 4, values(30.0), earlier=HELD),
    "failing": synced(spec(QUEUE), 2, REFUSED),
    "failing beside another": synced(spec(QUEUE, cpu(utilization(50))), 2, values(50.0), REFUSED),
    "unreadable": unreadable(),
    "switched off": synced(spec(QUEUE), 0, values(50.0)),
}
SENTENCES = rows("""
breaker | held: held at 8 (would scale to 1): scale-down breaker of Prometheus until 00:10:00Z
breaker of a server | held: held at 8 (would scale to 1): scale-down breaker of the Prometheus
    server "mimir" until 00:10:00Z
above | ok: scaled 3 -> 6: rabbitmq_queue_messages_ready{queue="orders"} above target (17.67/10 per
    replica)
below | ok: scaled 2 -> 1: below target (rabbitmq_queue_messages_ready{queue="orders"} 2.5/10 per
    replica)
stays | ok: unchanged (1)
all below | ok: scaled 3 -> 1: all metrics below target (queue 3/10 per replica, mails 0.334/4 per
    replica)
doubling | limited: scaled 1 -> 4: queue above target (90/10 per replica); metrics ask for 9;
    default scale-up limit (twice the replicas or 4 per sync) permits 4
pods policy | limited: scaled 1 -> 3: queue above target (90/10 per replica); metrics ask for 9;
    scaleUp policy of 2 pods per 60 s permits 3
percent policy | limited: scaled 3 -> 6: queue above target (30/10 per replica); metrics ask for 9;
    scaleUp policy of 100% of 3 replicas per 60 s permits 6
disabled | limited: limited at 1: metrics ask for 9; scaleUp.selectPolicy Disabled permits 1
maximum | atMaximum: at maximum (5): metrics ask for 9
minimum | ok: at minimum (1): metrics ask for 0
a peak above the maximum | ok: unchanged (8)
fewer in status | ok: scaled 10 -> 9: queue 10.78/10 per replica is within tolerance;
    status.replicas is 9
more in status | ok: scaled 10 -> 11: queue 9.091/10 per replica is within tolerance;
    status.replicas is 11
few in status | ok: scaled 20 -> 12: queue 24/10 per replica, over 5 replicas in status.replicas,
    asks for 12
few pods | ok: scaled 10 -> 6: rps 200/100 per pod, over 3 ready pods, asks for 6
few in status for two | ok: scaled 20 -> 12: queue 6/10 per replica, mails 24/10 per replica, over 5
    replicas in status.replicas, asks for 12
pending pods | ok: unchanged (3): cpu is 90%/50%, but 2 pods not ready (canary-0, canary-1) count as
    idle
few pods above | ok: unchanged (3): rps is 130/100 per pod, over 2 ready pods, asks for 3
no ready pod | ok: unchanged (5): queue is 50/10, over 0 ready pods, asks for at least 5
held | stabilizing: stabilizing at 8: metrics ask for 3; scale-down window keeps 8 until 00:04:00Z
    (recommendation of 8 at 2025-12-31T23:59:00Z)
held above | stabilizing: scaled 4 -> 8: earlier recommendations; metrics ask for 3; scale-down
    window keeps 8 until 00:04:00Z (recommendation of 8 at 2025-12-31T23:59:00Z)
failing | failing: unchanged (2): queue: Prometheus http://prometheus:9090 refused the connection
failing beside another | failing: scaled 2 -> 4: queue above target (25/10 per replica); metrics ask
    for 5; default scale-up limit (twice the replicas or 4 per sync) permits 4; partial: cpu:
    Prometheus http://prometheus:9090 refused the connection
unreadable | failing: unchanged, scale cannot be read: the API server is away
switched off | disabled: disabled (replicas set to 0, minReplicas is 1): set replicas to 1 or more
    to resume; queue asks for replicas meanwhile
""")


@pytest.mark.parametrize(("name", "sentence"), SENTENCES, ids=list(RESULTS))
def test_each_state_has_a_word_and_a_sentence(name: str, sentence: str) -> None:
    result = RESULTS[name]
    assert f"{result.classified().state}: {verdict(result)}" == sentence


def test_a_failed_write_and_a_plan_have_their_sentence() -> None:
    up = synced(spec(QUEUE), 3, values(50.0))
    failed = SyncResult(up.target, up.decision, WriteFailure("it was refused"))
    assert (failed.classified().state, failed.classified().cause, verdict(failed)) == (
        State.FAILING,
        "FailedRescale: it was refused",
        "3 -> 5 not written: it was refused",
    )
    assert "controlledBy" not in whole(up).document()
    decision = replace(up.decision, controller='HPA "web"', written=False)
    controlled = SyncResult(up.target, decision, SkippedWrite(SkippedWriteReason.SHADOW))
    assert whole(controlled).document()["controlledBy"] == 'HPA "web"'
    assert controlled.classified().state is State.CONTROLLED
    would = "would scale 3 -> 5: queue above target (16.67/10 per replica)"
    assert verdict(controlled) == f'controlled by HPA "web": {would}'
    last = replace(controlled.decision, unchecked="forbidden")
    assert verdict(replace(controlled, decision=last)) == (
        f'controlled by HPA "web" (last known, cannot be checked: forbidden): {would}'
    )


def matches(key: str, operator: Operator, *of: str) -> ExternalMetric:
    """Return a metric with one expression in its selector."""
    return external(average("1"), "m", LabelSelector((), (Requirement(key, operator, of),)))


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (QUEUE, "queue"),
        (ORDERS, 'rabbitmq_queue_messages_ready{queue="orders"}'),
        (matches("a", Operator.IN, "x"), 'm{a="x"}'),
        (matches("a", Operator.IN, "x", "y"), 'm{a=~"x|y"}'),
        (matches("a", Operator.NOT_IN, "x"), 'm{a!="x"}'),
        (matches("a", Operator.NOT_IN, "x", "y"), 'm{a!~"x|y"}'),
        (matches("a", Operator.EXISTS), 'm{a!=""}'),
        (matches("a", Operator.DOES_NOT_EXIST), 'm{a=""}'),
        (cpu(utilization(50)), "cpu"),
    ],
)
def test_a_metric_is_named_as_in_promql(metric: MetricSpec, name: str) -> None:
    assert wording.metric_name(metric) == name


MEMORY = ResourceMetric("memory", average("1Gi"))


@pytest.mark.parametrize(
    ("metric", "texts"),
    [
        (QUEUE, "26500=26.5 200002=200 334=0.334 0=0 -1500=-1.5 1234567890=1234568"),
        (cpu(utilization(50)), "450=450m 1500=1.5 0=0"),
        (
            MEMORY,
            f"{2**30 * 1000}=1Gi {2**30 * 1500}=1.5Gi {300 * 2**20 * 1000 + 7000}=300Mi 12000=12",
        ),
    ],
)
def test_numbers_have_four_digits(metric: MetricSpec, texts: str) -> None:
    for milli, text in (row.split("=") for row in texts.split()):
        assert wording.quantity(metric, int(milli)) == text


def lines_of(result: SyncResult, sources: Sequence[QuerySource] = ()) -> list[str]:
    """Return an explanation's lines, with single spaces."""
    return [" ".join(line.split()) for line in explain(result, sources).splitlines()]


def test_an_explanation_has_the_total_and_the_average() -> None:
    lines = lines_of(synced(spec(ORDERS), 3, values(33.0, 20.0)))
    assert "value: 17.67 per replica, 53 in total, 2 series" in lines
    assert not [line for line in lines if line.startswith("combine")]
    several = lines_of(synced(spec(QUEUE, ORDERS), 3, values(30.0), values(53.0)))
    assert (
        "combined 3 -> 6: largest recommendation, by "
        'rabbitmq_queue_messages_ready{queue="orders"}' in several
    )


def test_an_explanation_names_zeros_counts_and_requests() -> None:
    lines = lines_of(synced(spec(ORDERS), 3, Values((0,), empty=True)))
    assert "no series, counted as 0 (empty: zero)" in lines
    assert not [line for line in lines if line.startswith("measured")]
    lines = lines_of(synced(spec(ORDERS), 3, Values((0, 53000), nans=1)))
    assert "value: 17.67 per replica, 53 in total, 2 series" in lines
    assert "1 series NaN, counted as 0 (nan: zero)" in lines
    lines = lines_of(synced(spec(QUEUE), 1, values(10.0)))
    assert [line for line in lines if line.startswith("scale 1 replica in spec, 1 in status; ")]
    assert "asks for 1 (status.replicas): ratio within tolerance" in lines
    few = (pod("p0"), pod("p1", ready=FALSE))
    lines = lines_of(synced(spec(external(value("10"))), 9, values(50.0), of_pods=few))
    kept = "asks for 9 (spec.replicas): ratio 5 with 1 ready pod"
    assert kept in lines
    lines = lines_of(synced(spec(cpu(utilization(50))), 2, PodSamples(samples(400, 500))))
    assert "value: 45%, 450m of 1 per pod on average, 2 pods" in lines


def test_an_explanation_has_the_query_of_each_metric() -> None:
    of = spec(QUEUE, cpu(utilization(80)))
    done = synced(of, 1, values(10.0), PodSamples(samples(400)))
    queries = (Query("sum by (queue)\n  (m\x1b)"), Query("rate(c[2m])", server="mimir"))
    result = SyncResult(Target("shop", of, queries), done.decision)
    sources = (QuerySource("queries.queue"), QuerySource("the built-in query of cpu", default=True))
    lines = lines_of(result, sources)
    at = lines.index("metric 1 External queue, target 10 per replica")
    assert lines[at + 1] == r"queries.queue: sum by (queue) (m\x1b)"
    at = lines.index("metric 2 Resource cpu, target 80%")
    assert lines[at + 1 : at + 3] == [
        "default metric of the HPA (`metrics` is not set)",
        "the built-in query of cpu at server mimir: rate(c[2m])",
    ]
    first, second = cast("list[dict[str, object]]", whole(result, sources).document()["metrics"])
    assert first["query"] == {"source": "queries.queue", "promql": r"sum by (queue) (m\x1b)"}
    assert "default" not in first
    assert second["default"] is True
    assert second["query"] == {
        "source": "the built-in query of cpu",
        "promql": "rate(c[2m])",
        "server": "mimir",
    }


@pytest.mark.parametrize(
    ("reading", "hints"), [(Gap(GapKind.EMPTY, "the query returned no series"), 1), (REFUSED, 0)]
)
def test_a_query_without_series_has_a_hint(reading: Reading, hints: int) -> None:
    text = explain(synced(spec(QUEUE), 1, reading), (), "a.yaml")
    hint = "`autoscaler validate --prometheus a.yaml` shows which labels exist"
    assert text.count(hint) == hints
    assert "hint" not in explain(synced(spec(QUEUE), 1, reading), file=None)


def test_only_the_reason_of_the_record_has_the_names_of_the_hpa() -> None:
    document = whole(synced(spec(ORDERS), 3, values(53.0))).document()
    assert "&LabelSelector{" in str(document["reason"])
    messages = str([document["conditions"], document["events"]])
    assert 'rabbitmq_queue_messages_ready{queue="orders"}' in messages
    assert "&LabelSelector{" not in messages


def test_unready_pods_are_explained_by_their_rule() -> None:
    of_pods = (
        pod("p0"),
        pod("p1", start=-40.0, transition=-20.0),
        pod("p2", start=-100.0, ready=FALSE, transition=-100.0),
        pod("p3", phase="Pending"),
    )
    result = synced(
        spec(cpu(utilization(50))), 4, PodSamples(samples(400, 500, 600)), of_pods=of_pods
    )
    lines = lines_of(result)
    assert "pods: 1 ready, 3 unready (p1, p2, p3)" in lines
    assert (
        "unready: p1 (CPU samples cover a time before Ready, within cpuInitializationPeriod; the "
        "last one counts from 2026-01-01T00:00:40Z)" in lines
    )
    assert (
        "unready: p2 (not Ready within cpuInitializationPeriod; the last one counts from "
        "2026-01-01T00:03:20Z)" in lines
    )
    assert "unready: p3 (Pending)" in lines


def test_a_found_count_names_the_sync_that_found_it() -> None:
    for only_down, found in ((False, "sync"), (True, "sync after incomplete readings")):
        by = Recommendation(8, BASE, first=True, only_down=only_down)
        stage = Stabilization(4, 8, "ScaleDownStabilized", by, BASE + 300.0)
        assert hold(stage, BASE + 15.0) == (
            "scale-down window keeps 8 until 00:05:00Z "
            f"(8 replicas at the first {found}, 00:00:00Z)"
        )


def test_the_whole_of_a_decision_has_the_policy_of_a_limit_and_the_time_of_a_refill() -> None:
    result = synced(spec(QUEUE, behavior=SLOW), 1, values(90.0))
    (policy,) = SLOW.scale_up.policies
    stage = whole(result).stages[-1]
    assert (stage.name, stage.policy) == ("limit", policy)
    refill = Refill(BASE - 15, BASE + 155)
    metric = decision_metric(replace(result.decision.metrics[0], refill=refill))
    assert (metric.returned, metric.nothing_down_before) == (refill.returned, refill.until)
