"""What is wrong with a policy test, each part of which is right by itself."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from autoscaler.config import durations
from autoscaler.config.documents import Location
from autoscaler.config.error_messages import suggestion
from autoscaler.config.models import Model
from autoscaler.config.problems import Finding, below
from autoscaler.core.spec import SOURCES
from autoscaler.core.status import ABLE_TO_SCALE, FALLBACK, SCALING_ACTIVE, SCALING_LIMITED
from autoscaler.core.target import QueryKey, Target
from autoscaler.lab.engine.building import is_called
from autoscaler.lab.engine.loads import LoadModel
from autoscaler.lab.engine.world import SimulatedTarget
from autoscaler.lab.policy_tests.series_names import NamedSeries, Reader, ReadyTest
from autoscaler.lab.policy_tests.settings import Expectation, PolicyTest, WorldEvent

MOST_SYNCS = 20_000
"""Of all targets of a test: three days of one target each 15 seconds."""
MOST_REPLICAS = 100_000
"""Of each target; each is a pod in memory."""
_MOST_LISTED = 10

_AT_ONCE = ("set_replicas", "restart", "lose_state", "takeover")
_PLACES = frozenset({"at", "from_", "to", "target", "for_", "by", "query"})
"""Fields that say of what, and when."""
_LASTING = tuple(
    name for name in WorldEvent.model_fields if name not in _PLACES and name not in _AT_ONCE
)
_FACTS = tuple(name for name in Expectation.model_fields if name not in _PLACES)
EVENTS = (
    *("SuccessfulRescale", "FailedRescale", "FailedGetScale", "FailedComputeMetricsReplicas"),
    *("SelectorRequired", "InvalidSelector", "AmbiguousSelector", "FailedListPods"),
    *("ControlledByOther", "ReplicasContested", "InvalidAnnotation"),
    *("FallbackActive", "FallbackEnded", *(f"FailedGet{kind}Metric" for kind in SOURCES)),
)
"""The reasons of the Events of a sync."""
_CONDITIONS = (ABLE_TO_SCALE, SCALING_ACTIVE, SCALING_LIMITED, FALLBACK)


def mistakes_of(test: PolicyTest, targets: Sequence[Target], duration: float) -> Iterator[Finding]:
    """Find what does not go together in a test of some targets that lasts so many seconds."""
    syncs = sum(math.floor(duration / target.sync_period) + 1 for target in targets)
    if syncs > MOST_SYNCS:
        message = f"takes {syncs:,} syncs, and may take {MOST_SYNCS:,}: let it be shorter"
        yield _finding((), message)
    yield from _many_replicas(test, targets)
    for at, of in _with_targets(test):
        if not any(is_called(target, of) for target in targets):
            message = f"is none of the test's targets; these are: {listed(targets)}"
            yield Finding((*at, "target"), message)
    names = [metric.name for target in targets for metric in target.spec.metrics]
    for index, load in enumerate(test.loads):
        if not any(fnmatchcase(name, load.metric) for name in names):
            message = f"is no metric of what is tested; these are: {_joined(names)}"
            yield Finding(("loads", index, "metric"), message)
    for index, event in enumerate(test.events):
        yield from (below(("events", index), one) for one in _of_event(event, duration))
    for index, expected in enumerate(test.expect):
        yield from (below(("expect", index), one) for one in _of_expectation(expected, duration))


def of_no_pod(test: ReadyTest, targets: Sequence[SimulatedTarget]) -> Iterator[Finding]:
    """Find the series that nothing reads, since no pod of these targets is called so."""
    by_key = {target.key: target for target in targets}
    begin = test.model.start.at
    for series in test.series:
        if any(_is_read(series, reader, by_key) for reader in series.readers):
            continue
        keys = dict.fromkeys(reader[0] for reader in series.readers)
        pods = [pod for key in keys for pod in by_key[key].workload.ready_names(begin)]
        message = f"is of no pod of what is tested; at the begin these are: {_joined(pods)}"
        yield _finding(("series", series.name), message)


def _is_read(series: NamedSeries, reader: Reader, by_key: Mapping[str, SimulatedTarget]) -> bool:
    """Return whether a reader takes a series; what is not read pod by pod takes any."""
    if series.labels is None or isinstance(reader, QueryKey):
        return True
    key, number = reader
    target = by_key[key]
    query, metric = target.rules.target.queries[number], target.rules.target.spec.metrics[number]
    if not metric.of_pods or target.loads[number].model is not LoadModel.RECORDED:
        return True
    names = query.labels
    namespace = series.labels.get(names.namespace, target.rules.target.namespace)
    pod = series.labels.get(names.pod, "")
    return namespace == target.rules.target.namespace and target.workload.may_have(pod)


def listed(targets: Sequence[Target]) -> str:
    """List the keys of targets for a message, as many as one reads."""
    return _joined([target.key for target in targets])


def _joined(names: Sequence[str]) -> str:
    more = len(names) - _MOST_LISTED
    shown = ", ".join(names[:_MOST_LISTED]) or "none"
    return f"{shown} and {more} more" if more > 0 else shown


def _finding(location: Location, message: str) -> Finding:
    return Finding(location, message, show_value=False)


def _with_targets(test: PolicyTest) -> Iterator[tuple[Location, str]]:
    """Yield what names targets, and its pattern."""
    for key in ("loads", "workloads", "events", "expect"):
        for index, one in enumerate(getattr(test, key)):
            yield (key, index), one.target


def _many_replicas(test: PolicyTest, targets: Sequence[Target]) -> Iterator[Finding]:
    counts: list[tuple[Location, int | None]] = [(("start", "replicas"), test.start.replicas)]
    for index, workload in enumerate(test.workloads):
        counts.append((("workloads", index, "replicas"), workload.replicas))
    for index, event in enumerate(test.events):
        counts.append((("events", index, "setReplicas"), event.set_replicas))
    most = f"and a test may have {MOST_REPLICAS:,}"
    for at, count in counts:
        if count is not None and count > MOST_REPLICAS:
            yield _finding(at, f"is {count:,} replicas, {most}")
    for target in targets:
        windows = (one.max_replicas or 0 for one in target.extensions.schedules)
        maximum = max((target.spec.max_replicas, *windows))
        if maximum > MOST_REPLICAS:
            yield _finding((), f"{target.key} may have {maximum:,} replicas, {most}")


def _of_event(event: WorldEvent, duration: float) -> Iterator[Finding]:
    lasting, at_once = _said(event, _LASTING), _said(event, _AT_ONCE)
    if not lasting and not at_once:
        yield _finding(
            (), f"says nothing: write one of {_keys((*_AT_ONCE, *_LASTING), WorldEvent)}"
        )
    if event.for_ is not None and at_once:
        keys = _keys(at_once, WorldEvent)
        yield _finding(("for",), f"does not go with {keys}, which happens at once")
    if event.down and event.for_ is None:
        yield _finding(("for",), "is missing: how long the daemon does not run")
    if event.query is not None and not (event.query_fails or event.partial):
        yield _finding(("query",), "goes with queryFails or partial")
    if event.at > duration:
        yield _after_the_end(("at",), duration)


def _of_expectation(expected: Expectation, duration: float) -> Iterator[Finding]:
    first, last = expected.from_, expected.to
    is_time = first is not None and last is not None
    if (expected.at is not None) == is_time or (first is None) != (last is None):
        yield _finding((), "needs `at`, or both `from` and `to`")
    if first is not None and last is not None and first > last:
        yield _finding(("to",), "is before `from`")
    if not _said(expected, _FACTS):
        yield _finding((), f"expects nothing: write one of {_keys(_FACTS, Expectation)}")
    if expected.no_change and not is_time:
        yield _finding(("noChange",), "goes with `from` and `to`")
    if expected.event is not None and expected.event not in EVENTS:
        yield Finding(("event",), f"is no event of a sync: {suggestion(expected.event, EVENTS)}")
    for kind in (expected.conditions or {}).keys() - {*_CONDITIONS}:
        yield _finding(("conditions", kind), f"is no condition: {suggestion(kind, _CONDITIONS)}")
    end = expected.at if last is None else last
    if end is not None and end > duration:
        yield _after_the_end(("at" if last is None else "to",), duration)


def _after_the_end(at: Location, duration: float) -> Finding:
    lasts = durations.format_seconds(duration)
    return _finding(at, f"is after the end: the test lasts {lasts}")


def _said(model: Model, names: Iterable[str]) -> list[str]:
    values = ((name, getattr(model, name)) for name in names)
    return [name for name, value in values if value is not None and value is not False]


def _keys(names: Iterable[str], of: type[Model]) -> str:
    return ", ".join(of.model_fields[name].alias or name for name in names)
