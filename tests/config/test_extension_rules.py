"""What a target may have beyond the HPA's spec: every mistake is told, and every key reaches it."""

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
    Schedule,
)
from autoscaler.core.selectors import LabelSelector
from autoscaler.core.target import HoldQuery, Query
from tests.config.documents import (
    EXTERNAL,
    assert_refused,
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
CPU = "{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}"
NIGHT = "name: night, start: 0 22 * * *, end: 0 6 * * *"


def extended(keys: str) -> str:
    """Return a document with a target with an External metric and these keys."""
    return target(f"{keys}\n{METRICS}")


def schedule(keys: str, more: str = "") -> str:
    """Return a document with a target with one schedule, and ``more`` keys."""
    return extended(f"{more}\nschedules:\n- {{{keys}}}")


def activation(value: str, more: str = "idle: {}") -> str:
    """Return a document whose External metric has an activation."""
    return extended(more) + f"    activation: {value}\n"


IDLE = [
    (extended("idle: true"), T + "idle", "a mapping; write {} for its defaults (got true)"),
    (extended("idle: false"), T + "idle", "must be a mapping; leave it out (got false)"),
    (extended("idle: {enabled: true}"), T + "idle.enabled", "leave it out: what is written is on"),
    (extended("idle: {cooldownPeriod: 5}"), T + "idle.cooldownPeriod", "here it is `after` of"),
    (
        extended("idle: {initialCooldownPeriod: 5}"),
        T + "idle.initialCooldownPeriod",
        "here it is `initially` of",
    ),
    (extended("idle: {after: 5}"), T + "idle.after", "a plain number has no unit; write 5s"),
    (extended("idle: {cooldown: 5m}"), T + "idle.cooldown", "known are after, initially"),
    (extended("idle: {replicas: -1}"), T + "idle.replicas", "must be at least 0 (got -1)"),
    (
        extended("idle: {replicas: 1}"),
        T + "idle.replicas",
        "must be less than minReplicas, which is 1 (got 1)",
    ),
    (
        extended("idle: {}\nminReplicas: 0"),
        T + "minReplicas",
        "must be at least 1 beside `idle`, which goes to idle.replicas and back by itself (got 0)",
    ),
    (target("idle: {}\n"), T + "idle", "needs at least one metric of type External or Object"),
    (
        target(f"idle: {{}}\nmetrics: [{CPU}]\n"),
        T + "idle",
        "needs at least one metric of type External or Object: only these can be active",
    ),
    (
        schedule(f"{NIGHT}, minReplicas: 2", "minReplicas: 5\nidle: {replicas: 2}"),
        S + "minReplicas",
        "must be more than idle.replicas, which is 2 (got 2)",
    ),
    (
        schedule(f"{NIGHT}, minReplicas: 0", "idle: {}"),
        S + "minReplicas",
        "must be more than idle.replicas, which is 0 (got 0)",
    ),
]

ACTIVATION = [
    (activation("a few"), T + "metrics[0].activation", "is not a quantity"),
    (
        activation("-10P"),
        T + "metrics[0].activation",
        "must be from -9223372036854775807m to 9223372036854775807m",
    ),
    (activation("10P"), T + "metrics[0].activation", "must be from -9223372036854775807m to 92"),
    (
        activation('"5"', ""),
        T + "idle",
        "is missing: the activation of metrics[0] says from which value on a target is not idle; w",
    ),
    (
        metric(f"{CPU[1:-1].replace(', ', chr(10), 1)}\nactivation: 5\n"),
        T + "metrics[0].activation",
        "belongs to metrics of type External and Object: those of type Resource cannot wake",
    ),
    (
        extended("activation: 5"),
        T + "activation",
        "it belongs in `metrics[]`",
    ),
]

FALLBACK = [
    (extended("fallback: 6"), T + "fallback", "must be a mapping (got 6)"),
    (
        extended("fallback: {}"),
        T + "fallback.replicas",
        "is missing: the count that a metric proposes which fails; only behavior currentReplicas",
    ),
    (
        extended("fallback: {behavior: currentReplicasIfHigher}"),
        T + "fallback.replicas",
        "is missing: the count",
    ),
    (extended("fallback: {replicas: -1}"), T + "fallback.replicas", "must be at least 0"),
    (
        extended("fallback: {replicas: 1, failureThreshold: 0}"),
        T + "fallback.failureThreshold",
        "must be at least 1 (got 0)",
    ),
    (
        extended("fallback: {replicas: 1, behavior: currentreplicas}"),
        T + "fallback.behavior",
        "or currentReplicasIfLower; did you mean currentReplicas?",
    ),
]

FORMS = "must be true, false, scaleDown, scaleUp or {replicas: N}"
PAUSED = [
    (extended("paused: 'true'"), T + "paused", FORMS + '; did you mean true? (got "true")'),
    (extended("paused: 5"), T + "paused", FORMS + " (got 5)"),
    (extended("paused: scale-down"), T + "paused", FORMS + "; did you mean scaleDown?"),
    (extended("paused: {}"), T + "paused.replicas", "is missing: the count"),
    (extended("paused: {replicas: -1}"), T + "paused.replicas", "must be at least 0"),
    (extended("paused: {replica: 1}"), T + "paused.replica", "did you mean `replicas`?"),
]

SCHEDULES = [
    (extended("schedules: {}"), T + "schedules", "must be a list"),
    (schedule("name: night, end: 0 6 * * *"), S + "start", "is missing: when it opens"),
    (schedule("start: 0 6 * * *, end: 0 7 * * *"), S + "name", "is missing: what the window"),
    (schedule(f"{NIGHT}"), T + "schedules[0]", "gives no bound: write minReplicas, maxReplicas or"),
    (
        schedule("name: a, start: 0 24 * * *, end: 0 6 * * *, minReplicas: 2"),
        S + "start",
        'its hour is "24": it takes 0 to 23; a list 1,3, a range 1-5, * for all or */2',
    ),
    (
        schedule("name: a, start: 0 2 * * *, end: 0 6 * *, minReplicas: 2"),
        S + "end",
        "must be the five fields minute, hour, day, month, day of the week, such as 0 8 * * 1-5",
    ),
    (
        schedule("name: a, start: 0 0 29 2 *, end: 0 6 * * *, minReplicas: 2"),
        S + "start",
        "must come every year, and there is no such day in most years (got ",
    ),
    (
        schedule("name: a, start: 0 0 30 2 *, end: 0 6 * * *, minReplicas: 2"),
        S + "start",
        "must come every year, and there is no such day in any year (got ",
    ),
    (
        schedule("name: a, start: '@daily', end: 0 6 * * *, minReplicas: 2"),
        S + "start",
        "and has 1; write 0 0 * * * (got ",
    ),
    (schedule("name: a, start: 8, end: 0 6 * * *, minReplicas: 2"), S + "start", "must be a text"),
    (
        schedule("name: a, start: 0 6 * * *, end: '0  6 * * *', minReplicas: 2"),
        S + "end",
        "is the same as start, so that the window would never open",
    ),
    (
        schedule(f"{NIGHT}, minReplicas: 2, timezone: Berlin"),
        S + "timezone",
        "is no time zone; right is a name such as Europe/Berlin or UTC; did you mean Europe/Berlin",
    ),
    (
        schedule(f"{NIGHT}, minReplicas: 2, timezone: america/new york"),
        S + "timezone",
        "did you mean America/New_York?",
    ),
    (
        schedule(f"{NIGHT}, minReplicas: 6, maxReplicas: 5"),
        S + "maxReplicas",
        "must be at least its minReplicas, which is 6",
    ),
    (
        schedule(f"{NIGHT}, minReplicas: 11"),
        S + "minReplicas",
        "must be at most the target's maxReplicas, which is 10; or give the window a maxReplicas",
    ),
    (
        schedule(f"{NIGHT}, maxReplicas: 2", "minReplicas: 3"),
        S + "maxReplicas",
        "must be at least the target's minReplicas, which is 3; or give the window a lower",
    ),
    (
        target(f"schedules: [{{{NIGHT}, minReplicas: 0}}]\n"),
        S + "minReplicas",
        "0 needs at least one metric of type Object or External",
    ),
    (
        extended(f"schedules: [{{{NIGHT}, minReplicas: 2}}, {{{NIGHT}, minReplicas: 3}}]"),
        T + "schedules",
        "two of them are called `night`: give each a name of its own",
    ),
    (schedule(f"{NIGHT}, timeZone: UTC"), S + "timeZone", "did you mean `timezone`?"),
]

QUERIES = [
    (extended("minReplicasQuery: {maxAge: 1m}"), T + "minReplicasQuery.query", "is missing"),
    (extended("maxReplicasQuery: ''"), T + "maxReplicasQuery", "must be PromQL, and is empty"),
    (
        extended("minReplicasQuery: {query: up, window: 1m}"),
        T + "minReplicasQuery.window",
        "is not known here",
    ),
    (extended("minReplicasQuery: {query: up, server: ''}"), T + "minReplicasQuery.server", "empty"),
    (extended("ignoreSurge: 'yes'"), T + "ignoreSurge", "must be true or false"),
    (extended("server: 1"), T + "server", "put it in quotes"),
    (top("queries: {a: {query: up, empty: 0}}\n"), "queries.a.empty", "must be fail or zero"),
    (top("queries: {a: {query: up, nan: Zero}}\n"), "queries.a.nan", "did you mean zero?"),
    (top("queries: {a: {query: up, partial: no}}\n"), "queries.a.partial", "must be hold or use"),
]

H = T + "holdScaleDownQuery"
HOLDS = [
    (extended("holdScaleDownQuery: {maxAge: 1m}"), H, "needs `query`, which is PromQL, or `name`"),
    (extended("holdScaleDownQuery: ''"), H, "must be PromQL, and is empty"),
    (extended("holdScaleDownQuery: 5"), H, "must be PromQL, or a mapping with `query` or `name`"),
    (
        extended("holdScaleDownQuery: {name: queue_lenght}"),
        H + ".name",
        "is no key of `queries`: did you mean `queue_length`?",
    ),
    (extended("holdScaleDownQuery: {query: up, name: a}"), H + ".query", "does not go with `name`"),
    *(
        (
            extended(f"holdScaleDownQuery: {{name: queue_length, {words}}}"),
            H + f".{words.partition(':')[0]}",
            "does not go with `name`: write it at that query",
        )
        for words in ("maxAge: 1m", "nan: zero", "partial: use", "server: default")
    ),
    (extended("holdScaleDownQuery: {query: up, empty: zero}"), H + ".empty", "is not known here"),
    (extended("holdScaleDownQuery: {query: up, partial: no}"), H + ".partial", "hold or use"),
]

LEFT = "{field: 'spec.triggers[1]', type: kafka, why: it is left out}"
IS_LEFT = (
    "is left to decide: spec.triggers[1] (type kafka): it is left out; delete this entry once that "
    "is done"
)
UNDECIDED = [
    (extended(f"undecided: [{LEFT}]"), T + "undecided[0]", IS_LEFT),
    (top(f"undecided: [{LEFT}]"), "undecided[0]", IS_LEFT),
    (extended("undecided: [{}]"), T + "undecided[0]", "is left to decide: something: something"),
]
ROWS = UNDECIDED + HOLDS + IDLE + ACTIVATION + FALLBACK + PAUSED + SCHEDULES + QUERIES


@pytest.mark.parametrize(("text", "path", "fragment"), ROWS)
def test_a_fault_of_an_extension_has_path_line_and_what_is_right(
    tmp_path: Path, text: str, path: str, fragment: str
) -> None:
    """Each fault has the path of its field, a line, and a sentence that says what is right."""
    assert_refused(tmp_path, text, path, fragment)


EVERY = """
minReplicas: 3
idle: {replicas: 1, after: 10m, initially: 1h}
fallback: {replicas: 6, failureThreshold: 5, behavior: currentReplicasIfLower}
paused: {replicas: 0}
ignoreSurge: true
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


@pytest.mark.parametrize("text", FINE)
def test_what_is_right_of_an_extension_is_taken(tmp_path: Path, text: str) -> None:
    """What is right is taken."""
    loaded(tmp_path, with_servers(text))


def test_every_key_reaches_the_core(tmp_path: Path) -> None:
    """Every key reaches the core."""
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
    query = Query('up{job="a"} == 0', max_age=60.0, server="mimir", nan_is_zero=True)
    assert found.hold == HoldQuery(replace(query, use_partial=True), condition=True)


def test_a_hold_by_name(tmp_path: Path) -> None:
    """It asks what the query of the name asks, and reads it by what is written there.

    That an empty answer is 0 to metrics makes no difference: it holds nothing.
    """
    words = "empty: zero, nan: zero, server: mimir, window: 5m, maxAge: 1m"
    hold = "holdScaleDownQuery: {name: away, selector: {matchLabels: {job: orders}}}"
    text = extended(hold).replace("queries: {", f"queries: {{away: {{query: up, {words}}}, ")
    (found,) = loaded(tmp_path, with_servers(text)).targets
    query = Query("up", max_age=60.0, server="mimir", nan_is_zero=True)
    assert found.hold == HoldQuery(query, LabelSelector((("job", "orders"),)))
    assert query.key in [one.key for one in found.all_queries]


def test_words_for_missing_data(tmp_path: Path) -> None:
    """They are the same for a query by name and for a metric's own."""
    words = "empty: zero, nan: zero, partial: use, server: mimir"
    named = target(METRICS).replace(
        "queue_length: sum by (queue) (queue_length)", f"queue_length: {{query: up, {words}}}"
    )
    own = target(METRICS).replace(
        "name: queue_length}", f"name: q, query: {{query: up, {words}}}}}"
    )
    for text in (named, own):
        (found,) = loaded(tmp_path, with_servers(text)).targets
        assert found.queries == (
            Query("up", server="mimir", empty_is_zero=True, nan_is_zero=True, use_partial=True),
        )


@pytest.mark.parametrize(
    ("written", "pause"),
    [
        ("true", Pause()),
        ("false", None),
        ("scaleDown", Pause(PauseMode.SCALE_DOWN)),
        ("scaleUp", Pause(PauseMode.SCALE_UP)),
        ("{replicas: 7}", Pause(replicas=7)),
    ],
)
def test_each_form_of_paused_is_a_pause_of_its_own(
    tmp_path: Path, written: str, pause: Pause | None
) -> None:
    """Each form is a pause of its own."""
    (found,) = loaded(tmp_path, extended(f"paused: {written}")).targets
    assert found.extensions == Extensions(pause=pause)


def test_what_is_left_out_of_an_extension_is_as_in_keda(tmp_path: Path) -> None:
    """What is left out is as KEDA has it, and a plain target has nothing."""
    (found,) = loaded(tmp_path, extended("idle: {}\nfallback: {replicas: 2}")).targets
    assert found.extensions == Extensions(Idle(0, 300.0, 0.0), (), Fallback(2, 3))
    (plain,) = loaded(tmp_path, extended("")).targets
    assert plain.extensions is NO_EXTENSIONS
    assert plain.all_queries == plain.queries


def test_what_many_targets_have_in_common_is_one_object(tmp_path: Path) -> None:
    """What many targets have in common is one object."""
    body = schedule(f"{NIGHT}, minReplicas: 2", "minReplicasQuery: max(floor)")
    second = body[body.index("-\n") :].replace("name: web", "name: other")
    one, two = loaded(tmp_path, body + second).targets
    assert one.extensions is two.extensions
    assert one.min_replicas_query is two.min_replicas_query


PODS = "metrics:\n- {{type: Pods, pods: {{metric: {}, " + "target: {{}}}}}}"
USED = "metrics:\n- {{type: {}, {}: {{name: cpu, query: {{query: up, empty: zero}}}}}}"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (target(PODS.format("{name: a, query: {query: up, empty: zero}}")), METRIC + "pods.metric"),
        (
            target(PODS.format("{name: rps}")).replace(
                "rps: sum by (pod) (rps)", "rps: {query: rps, empty: zero}"
            ),
            METRIC + "pods.metric",
        ),
        (
            target(USED.format("ContainerResource", "containerResource")),
            METRIC + "containerResource.query",
        ),
        (top("resourceQueries: {cpu: {query: up, empty: zero}}\n"), "resourceQueries"),
    ],
)
def test_no_sample_of_a_pod_can_be_made_up(tmp_path: Path, text: str, path: str) -> None:
    """`empty: zero` of a metric of pods would mean nothing, and is refused."""
    assert_refused(tmp_path, text, path, "samples of pods, of which none is made up")
