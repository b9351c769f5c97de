"""What a target may have beyond the HPA: the rules, which test_rules.py plays, and their keys."""

from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.core.extensions import (
    NO_EXTENSIONS,
    Extensions,
    Fallback,
    FallbackBehavior,
    Idle,
    Pause,
    PauseMode,
    ReplicaRounding,
    Schedule,
)
from autoscaler.core.spec import LabelSelector
from autoscaler.core.target import HoldQuery, Query, SeriesLabels
from tests.config.documents import (
    EXTERNAL,
    REF,
    assert_refused,
    cases,
    extended,
    loaded,
    metric,
    target,
    top,
    with_servers,
)

T = "targets[0]."
METRIC = T + "metrics[0]."
S = T + "schedules[0]."
METRICS = f"metrics:\n{EXTERNAL}"
CPU = "{name: cpu, target: {type: Utilization, averageUtilization: 80}}"
NIGHT = "name: night, start: 0 22 * * *, end: 0 6 * * *"


def with_night(keys: str) -> str:
    return extended(keys.replace("NIGHT", NIGHT))


def schedule(keys: str, more: str = "") -> str:
    return with_night(f"{more}\nschedules:\n- {{{keys}}}")


def activation(value: str, more: str = "idle: {}") -> str:
    return extended(more) + f"    activation: {value}\n"


IDLE = """
idle: true => idle: a mapping; write {} for its defaults (got true)
idle: false => idle: must be a mapping; leave it out (got false)
idle: {enabled: true} => idle.enabled: leave it out: a written key is on
idle: {cooldownPeriod: 5} => idle.cooldownPeriod: here it is `after` of
idle: {initialCooldownPeriod: 5} => idle.initialCooldownPeriod: here it is `initially` of
idle: {after: 5} => idle.after: a plain number has no unit; write 5s
idle: {cooldown: 5m} => idle.cooldown: known are after, gradual
idle: {replicas: -1} => idle.replicas: must be at least 0 (got -1)
idle: {replicas: 1} ~> idle.replicas: must be less than minReplicas, which is 1 (got 1)
idle: {}; minReplicas: 0
    => minReplicas: must be at least 1 with `idle`, which scales to idle.replicas and back
    (got 0)
minReplicas: 5; idle: {replicas: 2}; schedules: [{NIGHT, minReplicas: 2}]
    ~> schedules[0].minReplicas: must be more than idle.replicas, which is 2 (got 2)
idle: {}; schedules: [{NIGHT, minReplicas: 0}]
    ~> schedules[0].minReplicas: must be more than idle.replicas, which is 0 (got 0)
activation: 5 => activation: is not known here
"""
ACTIVATION = """
a few => activation: is not a quantity
-10P ~> activation: must be from -9223372036854775807m to 9223372036854775807m
10P ~> activation: must be from -9223372036854775807m to 92
"""
REPLICAS = """
replicas: 6 => replicas: must be a mapping with multipleOf (got 6)
replicas: {} => replicas.multipleOf: is missing
replicas: {multipleOf: 1} => replicas.multipleOf: must be at least 2 (got 1)
replicas: {multipleOf: 99} ~> replicas.multipleOf: must be at most maxReplicas, which is
"""
FALLBACK = """
fallback: 6 => fallback: must be a mapping (got 6)
fallback: {}
    => fallback.replicas: is missing: the count that a metric proposes which fails; only behavior
    currentReplicas
fallback: {behavior: currentReplicasIfHigher} => fallback.replicas: is missing: the count
fallback: {replicas: -1} => fallback.replicas: must be at least 0
fallback: {replicas: 1, failureThreshold: 0}
    => fallback.failureThreshold: must be at least 1 (got 0)
fallback: {replicas: 1, behavior: currentreplicas}
    => fallback.behavior: or currentReplicasIfLower; did you mean currentReplicas?
"""
PAUSED = """
paused: 'true'
    => paused: must be true, false, scaleDown, scaleUp or {replicas: N} (got
    "true")
paused: 5 => paused: must be true, false, scaleDown, scaleUp or {replicas: N} (got 5)
paused: {} => paused.replicas: is missing: the count
paused: {replicas: -1} => paused.replicas: must be at least 0
paused: {replica: 1} => paused.replica: did you mean `replicas`?
"""
WINDOWS = """
name: night, end: 0 6 * * * => start: is missing: when it opens
start: 0 6 * * *, end: 0 7 * * * => name: is missing: the name of the window
name: a, start: 0 24 * * *, end: 0 6 * * *, minReplicas: 2
    ~> start: its hour is "24": it takes 0 to 23; a list 1,3, a range 1-5, * for all or */2
name: a, start: 0 2 * * *, end: 0 6 * *, minReplicas: 2
    => end: must be the five fields minute, hour, day, month, day of the week, such as 0 8 * * 1-5
name: a, start: 0 0 29 2 *, end: 0 6 * * *, minReplicas: 2
    ~> start: must come every year, and there is no such day in most years (got
name: a, start: 0 0 30 2 *, end: 0 6 * * *, minReplicas: 2
    ~> start: must come every year, and there is no such day in any year (got
name: a, start: '@daily', end: 0 6 * * *, minReplicas: 2
    => start: and has 1; write 0 0 * * * (got
name: a, start: 8, end: 0 6 * * *, minReplicas: 2 => start: must be a text
name: a, start: 0 6 * * *, end: '0  6 * * *', minReplicas: 2
    ~> end: is the same as start, so that the window would never open
NIGHT, minReplicas: 2, timezone: Berlin
    ~> timezone: is not a valid time zone; use a name such as Europe/Berlin or UTC (got
    "Berlin")
NIGHT, minReplicas: 6, maxReplicas: 5 ~> maxReplicas: must be at least its minReplicas, which is 6
NIGHT, minReplicas: 11
    ~> minReplicas: must be at most the target's maxReplicas, which is 10; or give the window a
    maxReplicas
NIGHT, timeZone: UTC => timeZone: did you mean `timezone`?
"""
SCHEDULES = """
schedules: {} => schedules: must be a list
schedules: [{NIGHT}] => schedules[0]: gives no bound: write minReplicas, maxReplicas or
minReplicas: 3; schedules: [{NIGHT, maxReplicas: 2}]
    ~> schedules[0].maxReplicas: must be at least the target's minReplicas, which is 3; or give the
    window a lower
schedules: [{NIGHT, minReplicas: 2}, {NIGHT, minReplicas: 3}]
    ~> schedules: two of them are called `night`: give each a name of its own
"""
WITHOUT_EXTERNAL = """
idle: {} => idle: needs at least one metric of type External or Object
idle: {}; metrics: [{type: Resource, resource: CPU}]
    => idle: needs at least one metric of type External or Object: only these can be active
metrics: [{type: Resource, resource: CPU, activation: 5}]
    => metrics[0].activation: belongs to metrics of type External and Object: one of pods
    cannot wake
schedules: [{NIGHT, minReplicas: 0}]
    ~> schedules[0].minReplicas: 0 needs at least one metric of type Object or External
"""
QUERIES = """
minReplicasQuery: {maxAge: 1m} => minReplicasQuery.query: is missing
maxReplicasQuery: '' => maxReplicasQuery: must be PromQL, and is empty
minReplicasQuery: {query: up, window: 1m} => minReplicasQuery.window: is not known here
minReplicasQuery: {query: up, server: ''} => minReplicasQuery.server: empty
ignoreSurge: 'yes' => ignoreSurge: must be true or false
server: 1 => server: put it in quotes
"""
HOLDS = """
holdScaleDownQuery: {maxAge: 1m} => holdScaleDownQuery: needs `query`, which is PromQL, or `name`
holdScaleDownQuery: '' => holdScaleDownQuery: must be PromQL, and is empty
holdScaleDownQuery: 5 => holdScaleDownQuery: must be PromQL, or a mapping with `query` or `name`
holdScaleDownQuery: {name: queue_lenght}
    ~> holdScaleDownQuery.name: unknown key of `queries`: did you mean `queue_length`?
holdScaleDownQuery: {query: up, name: a} => holdScaleDownQuery.query: does not go with `name`
holdScaleDownQuery: {name: queue_length, maxAge: 1m}
    => holdScaleDownQuery.maxAge: does not go with `name`: write it at that query
holdScaleDownQuery: {name: queue_length, nan: zero} => holdScaleDownQuery.nan: does not go with
holdScaleDownQuery: {name: queue_length, partial: use} => holdScaleDownQuery.partial: does not go
holdScaleDownQuery: {name: queue_length, server: default} => holdScaleDownQuery.server: does not go
holdScaleDownQuery: {query: up, empty: zero} => holdScaleDownQuery.empty: is not known here
holdScaleDownQuery: sort(up == 0) ~> holdScaleDownQuery: put the comparison last, as in `max by
holdScaleDownQuery: {query: min(up == 0)} ~> holdScaleDownQuery: or count, as in `count(up
holdScaleDownQuery: {query: up, partial: no} => holdScaleDownQuery.partial: hold or use
"""
SCALE_DOWN = """
scaleDown: {} => scaleDown.podDeletionCost: is missing
scaleDown: {podDeletionCost: ''} => scaleDown.podDeletionCost: must be PromQL, and is empty
scaleDown: {podDeletionCost: 5} => scaleDown.podDeletionCost: must be PromQL, or a mapping
scaleDown: {podDeletionCost: {maxAge: 1m}} => scaleDown.podDeletionCost.query: is missing
scaleDown: {podDeletionCost: {query: up, empty: zero}}
    => scaleDown.podDeletionCost.empty: is not known
behavior: {scaleDown: {podDeletionCost: up}}
    => behavior.scaleDown.podDeletionCost: it belongs to the key `scaleDown` of the target
scaleDown: {podDeletionCost: up, policies: []} => scaleDown.policies: is not known here
"""
UNDECIDED = """
undecided: [{field: 'spec.triggers[1]', type: kafka, why: it is left out}]
    => undecided[0]: is left to decide: spec.triggers[1] (type kafka): it is left out; delete this
    entry once that is done
undecided: [{}] => undecided[0]: is left to decide: something: something
"""
OF_ALL = """
queries: {a: {query: up, empty: 0}} => queries.a.empty: must be fail or zero
queries: {a: {query: up, nan: Zero}} => queries.a.nan: did you mean zero?
queries: {a: {query: up, partial: no}} => queries.a.partial: must be hold or use
"""
STATEFUL = "namespace: shop\nmaxReplicas: 10\n" + REF.replace("Deployment", "StatefulSet")
OF_STATEFUL = """
scaleDown: {podDeletionCost: up}
    ~> scaleDown.podDeletionCost: has no effect on a StatefulSet
"""
ROWS = [
    *cases(lambda keys: target(keys, STATEFUL), T, OF_STATEFUL),
    *cases(
        with_night,
        T,
        IDLE + REPLICAS + FALLBACK + PAUSED + SCHEDULES + QUERIES + HOLDS + SCALE_DOWN + UNDECIDED,
    ),
    *cases(target, T, WITHOUT_EXTERNAL.replace("CPU", CPU).replace("NIGHT", NIGHT)),
    *cases(schedule, S, WINDOWS),
    *cases(activation, METRIC, ACTIVATION),
    *cases(top, "", OF_ALL + UNDECIDED),
    (activation('"5"', ""), T + "idle", "is missing: the activation of metrics[0] says from which"),
]


EVERY = """
minReplicas: 3
idle: {replicas: 1, after: 10m, initially: 1h}
fallback: {replicas: 6, failureThreshold: 5, behavior: currentReplicasIfLower}
paused: {replicas: 0}
ignoreSurge: true
replicas: {multipleOf: 2}
scaleDown:
  podDeletionCost:
    {query: 'sum by (ns, pod) (busy)', labels: {namespace: ns}, maxAge: 1m, nan: zero}
server: mimir
minReplicasQuery: max(floor)
maxReplicasQuery: {query: 'max_over_time(top[10m])', server: thanos, maxAge: 1m, empty: zero}
holdScaleDownQuery: {query: 'up{job="a"} == 0', server: mimir, maxAge: 1m, nan: zero, partial: use}
schedules:
- {name: office, start: 0 8 * * 1-5, end: 0 18 * * 1-5, timezone: Europe/Berlin, minReplicas: 5}
- {name: night, start: 0 22 * * *, end: 0 6 * * *, minReplicas: 2, maxReplicas: 4, gradual: true}
"""
FINE = [
    activation('"5"', EVERY),
    extended("idle:\nfallback:\npaused:\nschedules:\nignoreSurge:\nserver:\nminReplicasQuery:"),
    extended("holdScaleDownQuery: min_over_time(up[2m]) == 0"),
    extended("scaleDown: {podDeletionCost: 'sum by (namespace, pod) (busy)'}"),
    extended("scaleDown:"),
    extended("holdScaleDownQuery: {name: queue_length, selector: {matchLabels: {queue: a}}}"),
    extended("holdScaleDownQuery:"),
    extended("undecided: []"),
    extended("undecided:"),
    extended("paused: on"),
    extended("paused: scaleUp"),
    extended("fallback: {behavior: currentReplicas}"),
    extended("minReplicas: 0"),
    schedule(f"{NIGHT}, minReplicas: 0"),
    schedule(f"{NIGHT}, minReplicas: 20, maxReplicas: 30", "minReplicas: 5"),
    schedule(f"{NIGHT}, maxReplicas: 1, timezone: "),
    top("queries: {a: {query: up, empty: zero, nan: zero, partial: use, server: mimir}}\n"),
]


def test_every_key_reaches_the_core(tmp_path: Path) -> None:
    (found,) = loaded(tmp_path, with_servers(activation('"5"', EVERY))).targets
    assert found.extensions == Extensions(
        idle=Idle(1, 600.0, 3600.0),
        activations=(5000,),
        fallback=Fallback(6, 5, FallbackBehavior.CURRENT_REPLICAS_IF_LOWER),
        pause=Pause(replicas=0),
        schedules=(
            Schedule("office", "0 8 * * 1-5", "0 18 * * 1-5", "Europe/Berlin", 5),
            Schedule("night", "0 22 * * *", "0 6 * * *", "UTC", 2, 4, gradual=True),
        ),
        replicas=ReplicaRounding(2),
        ignore_surge=True,
    )
    assert found.min_replicas_query == Query("max(floor)", server="mimir")
    assert found.max_replicas_query == Query(
        "max_over_time(top[10m])",
        max_age=60.0,
        range_seconds=600.0,
        server="thanos",
        empty_is_zero=True,
    )
    assert found.deletion_cost == Query(
        "sum by (ns, pod) (busy)",
        max_age=60.0,
        labels=SeriesLabels(namespace="ns"),
        server="mimir",
        nan_is_zero=True,
    )
    query = Query('up{job="a"} == 0', max_age=60.0, server="mimir", nan_is_zero=True)
    assert found.hold == HoldQuery(replace(query, use_partial=True), condition=True)


def test_a_hold_by_name_asks_the_named_query(tmp_path: Path) -> None:
    words = "empty: zero, nan: zero, server: mimir, window: 5m, maxAge: 1m"
    hold = "holdScaleDownQuery: {name: away, selector: {matchLabels: {job: orders}}}"
    text = extended(hold).replace("queries: {", f"queries: {{away: {{query: up, {words}}}, ")
    (found,) = loaded(tmp_path, with_servers(text)).targets
    query = Query("up", max_age=60.0, server="mimir", nan_is_zero=True)
    assert found.hold == HoldQuery(query, LabelSelector((("job", "orders"),)))
    assert query.key in [result.key for result in found.all_queries]


def test_each_form_of_paused_is_a_pause_of_its_own(tmp_path: Path) -> None:
    for written, pause in (
        ("true", Pause()),
        ("false", None),
        ("scaleDown", Pause(PauseMode.SCALE_DOWN)),
        ("scaleUp", Pause(PauseMode.SCALE_UP)),
        ("{replicas: 7}", Pause(replicas=7)),
    ):
        (found,) = loaded(tmp_path, extended(f"paused: {written}")).targets
        assert found.extensions == Extensions(pause=pause)


def test_extensions_have_the_defaults_of_keda(tmp_path: Path) -> None:
    (found,) = loaded(tmp_path, extended("idle: {}\nfallback: {replicas: 2}")).targets
    assert found.extensions == Extensions(Idle(0, 300.0, 0.0), (), Fallback(2, 3))
    (plain,) = loaded(tmp_path, extended("")).targets
    assert plain.extensions is NO_EXTENSIONS
    assert plain.all_queries == plain.queries


def test_equal_extensions_of_targets_are_one_object(tmp_path: Path) -> None:
    body = schedule(f"{NIGHT}, minReplicas: 2", "minReplicasQuery: max(floor)")
    second = body[body.index("-\n") :].replace("name: web", "name: other")
    first, two = loaded(tmp_path, body + second).targets
    assert first.extensions is two.extensions
    assert first.min_replicas_query is two.min_replicas_query


MADE_UP = "samples of pods, which are never made up"
PODS = f"""
type: Pods; pods: {{metric: {{name: a, query: {{query: up, empty: zero}}}}, target: {{}}}}
    => pods.metric: {MADE_UP}
type: ContainerResource; containerResource: {{name: cpu, query: {{query: up, empty: zero}}}}
    => containerResource.query: {MADE_UP}
"""


@pytest.mark.parametrize(
    ("text", "path", "fragment"),
    [
        *cases(metric, METRIC, PODS),
        (
            metric("type: Pods\npods: {metric: {name: rps}, target: {}}\n").replace(
                "rps: sum by (pod) (rps)", "rps: {query: rps, empty: zero}"
            ),
            METRIC + "pods.metric",
            MADE_UP,
        ),
        (top("resourceQueries: {cpu: {query: up, empty: zero}}\n"), "resourceQueries", MADE_UP),
    ],
)
def test_empty_zero_is_refused_for_metrics_of_pods(
    tmp_path: Path, text: str, path: str, fragment: str
) -> None:
    assert_refused(tmp_path, text, path, fragment)
