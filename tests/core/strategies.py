"""Specs, observations and histories for property tests: any valid spec, any odd world."""

from dataclasses import replace

from hypothesis import strategies as st

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
from autoscaler.core.history import (
    ExtensionHistory,
    FailureStreak,
    History,
    KnownBound,
    Recommendation,
    ScaleEvent,
)
from autoscaler.core.numbers import INT32_MAX, INT64_MAX, INT64_MIN
from autoscaler.core.observation import (
    ContainerRequests,
    Gap,
    GapKind,
    HoldReading,
    Observation,
    OpenWindow,
    Pod,
    PodRequests,
    PodSamples,
    ReadFailure,
    Reading,
    Sample,
    Scale,
    Values,
)
from autoscaler.core.spec import (
    Behavior,
    ConditionStatus,
    ContainerResourceMetric,
    ExternalMetric,
    Flags,
    HorizontalPodAutoscalerSpec,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ObjectMetric,
    PodsMetric,
    PolicyType,
    ResourceMetric,
    ScaleTargetRef,
    ScalingPolicy,
    ScalingRules,
    SelectPolicy,
    TargetType,
)
from tests.core.builders import BASE, DEPLOYMENT

few = st.integers(0, 20)
counts = st.one_of(few, few, few, st.integers(0, INT32_MAX))
positive_counts = counts.map(lambda count: max(count, 1))
positive_milli = st.one_of(st.integers(1, 100_000), st.integers(1, INT64_MAX))
any_milli = st.one_of(
    st.integers(0, 1_000_000), st.integers(INT64_MIN, INT64_MAX), st.just(0), st.just(INT64_MAX)
)
quarters = st.integers(0, 16_000).map(lambda quarter: quarter / 4)
"""Seconds, in steps that doubles hold exactly."""
past = quarters.map(lambda ago: BASE - ago)
tolerances = st.sampled_from((0.0, 0.013, 0.1, 0.18, 0.36, 1.0, 5.0))

_name = st.sampled_from(("cpu", "memory", "example.com/gpu"))
_value = positive_milli.map(lambda milli: MetricTarget(TargetType.VALUE, value=milli))
_average = positive_milli.map(
    lambda milli: MetricTarget(TargetType.AVERAGE_VALUE, average_value=milli)
)
_utilization = st.integers(1, 1000).map(
    lambda percent: MetricTarget(TargetType.UTILIZATION, average_utilization=percent)
)
_identifier = st.sampled_from(("queue", "hits")).map(MetricIdentifier)
_container = st.sampled_from(("app", "log"))

resource_metrics = st.builds(ResourceMetric, _name, _utilization | _average)
container_metrics = st.builds(ContainerResourceMetric, _name, _container, _utilization | _average)
pods_metrics = st.builds(PodsMetric, _identifier, _average)
object_metrics = st.builds(
    ObjectMetric, st.just(ScaleTargetRef("v1", "Service", "web")), _identifier, _value | _average
)
external_metrics = st.builds(ExternalMetric, _identifier, _value | _average)
metrics: st.SearchStrategy[MetricSpec] = st.one_of(
    resource_metrics, container_metrics, pods_metrics, object_metrics, external_metrics
)

policies = st.builds(
    ScalingPolicy, st.sampled_from(PolicyType), positive_counts, st.integers(1, 1800)
)
scaling_rules = st.builds(
    ScalingRules,
    st.none() | st.sampled_from((0, 1, 15, 60, 300, 3600)),
    st.sampled_from(SelectPolicy),
    st.lists(policies, min_size=1, max_size=3).map(tuple),
    st.none() | tolerances,
)
behaviors = st.builds(Behavior, scaling_rules, scaling_rules)


@st.composite
def specs(
    draw: st.DrawFn, metric: st.SearchStrategy[MetricSpec] = metrics
) -> HorizontalPodAutoscalerSpec:
    """Draw a valid spec; minReplicas 0 only beside an Object or External metric."""
    chosen = tuple(draw(st.lists(metric, min_size=1, max_size=3)))
    may_be_zero = any(isinstance(item, ObjectMetric | ExternalMetric) for item in chosen)
    low, high = sorted((draw(counts), draw(positive_counts)))
    minimum = low if may_be_zero else max(low, 1)
    maximum = max(high, minimum, 1)
    return HorizontalPodAutoscalerSpec(
        DEPLOYMENT, minimum, maximum, chosen, draw(st.none() | behaviors)
    )


flags = st.builds(
    Flags, tolerances, st.sampled_from((0.0, 15.0, 300.0)), quarters, st.sampled_from((0.0, 30.0))
)

_nano = st.integers(0, 10**12) | st.integers(0, INT64_MAX * 10**9)
_requests = st.dictionaries(_name, _nano, max_size=3)
_containers = st.builds(ContainerRequests, _container, _requests, st.booleans())
pod_requests = st.builds(
    PodRequests,
    st.lists(_containers, max_size=2).map(tuple),
    st.lists(_containers, max_size=2).map(tuple),
    st.just({}) | _requests,
)
_usual = PodRequests((ContainerRequests("app", {"cpu": 10**9, "memory": 10**9}),))


@st.composite
def pod_lists(draw: st.DrawFn) -> tuple[Pod, ...]:
    """Draw up to six pods, usual and odd ones."""
    return tuple(
        Pod(
            f"p{index}",
            draw(st.sampled_from(("Running", "Running", "Pending", "Failed", "Succeeded", ""))),
            draw(st.none() | st.sampled_from(ConditionStatus)),
            draw(st.none() | past),
            draw(st.none() | past),
            draw(st.booleans()),
            draw(st.just(_usual) | st.just(_usual) | pod_requests),
        )
        for index in range(draw(st.integers(0, 6)))
    )


gaps = st.builds(Gap, st.sampled_from(GapKind), st.just("not there"))
some_gaps = st.lists(gaps, min_size=1, max_size=2).map(tuple)
no_gaps: st.SearchStrategy[tuple[Gap, ...]] = st.just(())
_windows = st.sampled_from((0.0, 30.0, 60.0))


def usual_pods(count: int) -> tuple[Pod, ...]:
    """Return pods that are long Running and Ready and request a cpu, and a unit of memory."""
    true, start = ConditionStatus.TRUE, BASE - 7200.0
    return tuple(
        Pod(f"p{index}", "Running", true, start, start, deleted=False, requests=_usual)
        for index in range(count)
    )


def _odd_reading(
    metric: MetricSpec, taint: st.SearchStrategy[tuple[Gap, ...]]
) -> st.SearchStrategy[Reading]:
    """Draw any reading of the metric's form."""
    if isinstance(metric, ObjectMetric):
        return st.builds(Values, st.tuples(any_milli), taint)
    if isinstance(metric, ExternalMetric):
        return st.builds(Values, st.lists(any_milli, max_size=4).map(tuple), taint)
    names = st.integers(0, 8).map(lambda index: f"p{index}")
    samples = st.dictionaries(names, st.builds(Sample, any_milli, past, _windows), max_size=8)
    return st.builds(PodSamples, samples, st.just({}), taint)


def _usual_reading(
    metric: MetricSpec, taint: st.SearchStrategy[tuple[Gap, ...]], replicas: int, pods: int
) -> st.SearchStrategy[Reading]:
    """Draw a reading from zero to three times the target of the replicas."""
    target = metric.target
    item = target.value or target.average_value or 10 * (target.average_utilization or 0)
    thirds = st.integers(0, 9).map(lambda third: item * third // 3)
    if isinstance(metric, ObjectMetric | ExternalMetric):
        factor = 1 if target.value is not None else replicas
        return st.builds(Values, st.tuples(thirds.map(lambda milli: milli * factor)), taint)
    sample = thirds.map(lambda milli: Sample(milli, BASE, 60.0))
    names = [f"p{index}" for index in range(pods)]
    return st.builds(
        PodSamples, st.fixed_dictionaries(dict.fromkeys(names, sample)), st.just({}), taint
    )


@st.composite
def odd_observations(
    draw: st.DrawFn,
    spec: HorizontalPodAutoscalerSpec,
    taint: st.SearchStrategy[tuple[Gap, ...]] = no_gaps | some_gaps,
) -> Observation:
    """Draw anything that may be read of the world of a spec."""
    scale: Scale | ReadFailure = Scale(
        draw(counts), draw(counts), draw(st.sampled_from(("app=web", "app=web", "", "a b")))
    )
    return Observation(
        draw(st.sampled_from((scale, scale, scale, ReadFailure("forbidden")))),
        draw(pod_lists() | pod_lists() | st.sampled_from((ReadFailure("forbidden"), None))),
        tuple(draw(_odd_reading(metric, taint) | gaps) for metric in spec.metrics),
        draw(st.sampled_from(((), (), ("shop/Deployment/other",)))),
    )


@st.composite
def usual_observations(
    draw: st.DrawFn,
    spec: HorizontalPodAutoscalerSpec,
    taint: st.SearchStrategy[tuple[Gap, ...]] = no_gaps,
) -> Observation:
    """Draw a scale inside the spec's bounds, with pods, and readings that may fail."""
    replicas = draw(st.integers(spec.min_replicas, spec.max_replicas))
    status = draw(st.sampled_from((replicas, replicas, max(replicas - 1, 0), replicas + 1)))
    pods = usual_pods(min(replicas, 6))
    broken = draw(st.sampled_from((0, 0, 1, 2)))
    readings = (
        draw(gaps if index < broken else _usual_reading(metric, taint, replicas, len(pods)))
        for index, metric in enumerate(spec.metrics)
    )
    shuffled = draw(st.booleans())
    strays = draw(pod_lists()) if shuffled else ()
    renamed = tuple(replace(pod, name=f"stray-{pod.name}") for pod in strays)
    return Observation(Scale(replicas, status, "app=web"), (*pods, *renamed), tuple(readings))


@st.composite
def extended_observations(
    draw: st.DrawFn, spec: HorizontalPodAutoscalerSpec, extensions: Extensions
) -> Observation:
    """Draw a usual observation, perhaps with gaps, open windows and queries of bounds."""
    return replace(
        draw(usual_observations(spec, no_gaps | some_gaps)),
        windows=draw(open_windows(extensions)),
        min_replicas_reading=draw(bound_readings),
        max_replicas_reading=draw(bound_readings),
    )


recommendations = st.lists(st.builds(Recommendation, counts, past), max_size=8).map(tuple)
scale_events = st.lists(
    st.builds(ScaleEvent, positive_counts, past, st.booleans()), max_size=5
).map(tuple)
histories = st.builds(
    History,
    st.none() | recommendations,
    scale_events,
    scale_events,
    st.just(()),
    counts,
    st.none() | past,
    st.booleans(),
)

_small_counts = st.integers(0, 30)
known_bounds = st.none() | st.builds(KnownBound, _small_counts, past)
_streaks = st.builds(
    FailureStreak, st.just("External external metric queue(nil)"), st.integers(1, 3)
)
extended_histories = st.builds(
    replace,
    st.just(History()) | histories,
    extended=st.builds(
        ExtensionHistory,
        last_active=st.none() | past,
        known_min=known_bounds,
        known_max=known_bounds,
        failures=st.lists(_streaks, max_size=1).map(tuple),
    ),
)
_bounds = st.none() | st.integers(1, 30)
_idles = st.builds(Idle, st.integers(0, 3), st.sampled_from((0.0, 60.0)), gradual=st.booleans())
_fallbacks = st.builds(
    Fallback, _small_counts, st.integers(1, 3), st.sampled_from(FallbackBehavior)
)
_pauses = st.builds(Pause, st.sampled_from(PauseMode)) | st.builds(
    Pause, st.just(PauseMode.ALL), _small_counts
)
_schedules = st.builds(
    Schedule,
    st.just("one"),
    st.just("0 8 * * *"),
    st.just("0 18 * * *"),
    st.just("UTC"),
    _bounds,
    _bounds,
    st.booleans(),
)
extensions = st.builds(
    Extensions,
    idle=st.none() | _idles,
    fallback=st.none() | _fallbacks,
    pause=st.none() | _pauses,
    schedules=st.lists(_schedules, max_size=2).map(tuple),
    ignore_surge=st.booleans(),
    replicas=st.none() | st.builds(ReplicaRounding, st.integers(2, 8)),
    mode=st.sampled_from(Mode),
)
bound_readings = st.none() | gaps | st.integers(0, 30_000).map(lambda milli: Values((milli,)))
"""What the query of a bound gives, if there is one."""
hold_readings = st.builds(HoldReading, st.integers(0, 2), st.sampled_from(("", "{}"))) | st.builds(
    HoldReading, gap=gaps
)
"""What the query of a hold says."""


def open_windows(of: Extensions) -> st.SearchStrategy[tuple[OpenWindow, ...]]:
    """Draw which of the schedules are open."""
    windows = [OpenWindow(schedule, BASE + 60.0, "18:00 UTC") for schedule in of.schedules]
    return st.sampled_from([tuple(windows[:count]) for count in range(len(windows) + 1)])
