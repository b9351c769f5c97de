"""The answers of the API, `-o json` and the log: one model for each, built from a decision once.

The OpenAPI document consists of these models, and the commands read a daemon's answers with them.
Unknown counts are null. A field with its default is omitted.
"""

import re
from collections.abc import Callable, Collection
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

from autoscaler.config.spec_model import TargetModel
from autoscaler.core.classification import Mark, State
from autoscaler.core.decision import Activity, Formula, Outcome, RemovalReason, UnreadyRule, Zone
from autoscaler.core.extensions import FallbackBehavior, Mode, PauseMode
from autoscaler.core.observation import LONGEST_SENTENCE, GapKind
from autoscaler.core.spec import ConditionStatus, ScalingPolicy
from autoscaler.core.target import TargetName
from autoscaler.core.text import instant_of, printable, rfc3339, rfc3339_milli

Json = dict[str, Any]


def _unix_time(instant: object) -> object:
    return instant_of(instant) if isinstance(instant, str) else instant


def _instant(write: Callable[[float], str]) -> Any:
    schema = {"type": "string", "format": "date-time"}
    return (BeforeValidator(_unix_time), PlainSerializer(write), WithJsonSchema(schema))


Instant = Annotated[float, *_instant(rfc3339)]
"""A Unix time; in JSON RFC 3339 in UTC, to the second."""
ExactInstant = Annotated[float, *_instant(rfc3339_milli)]
"""The same, to the millisecond."""
StateWord = Annotated[str, WithJsonSchema({"type": "string", "enum": [*State]})]
"""A `State`; another version may have more."""
MarkWord = Annotated[str, WithJsonSchema({"type": "string", "enum": [mark.word for mark in Mark]})]


def _escaped(value: Any) -> Any:
    """Return JSON with texts without lone surrogates, which UTF-8 cannot encode."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_escaped(key): _escaped(item) for key, item in value.items()}
    return [_escaped(item) for item in value] if isinstance(value, list | tuple) else value


def _one_line(value: object) -> object:
    return printable(value, LONGEST_SENTENCE) if isinstance(value, str) else value


_LONGEST_HOLDER, _LONGEST_LINK = 253, 300
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.:_\[\]-]+(?:/[A-Za-z0-9._~%!$&()*+,;=:@/-]*)?")


def _link(text: object) -> str | None:
    """Return a text if it is the short URL of a web server, without credentials or a query."""
    if not isinstance(text, str) or len(text) > _LONGEST_LINK:
        return None
    return text if _ADDRESS.fullmatch(text) else None


Text = Annotated[str, BeforeValidator(_escaped)]
"""A text with arbitrary characters: from a file, a server or a workload."""
Sentence = Annotated[str, BeforeValidator(_one_line)]
"""A text on one line, no longer than a sentence may be."""
HolderName = Annotated[str, BeforeValidator(lambda name: printable(str(name), _LONGEST_HOLDER))]
"""A name in a Lease, which any client with access to the Lease may set."""
Link = Annotated[str | None, BeforeValidator(_link)]
"""A URL that may be followed; null in place of any other text."""
AcceptedWrite = Annotated[Json, BeforeValidator(_escaped)]
"""JSON with such texts."""


def path_of_target(key: str) -> str:
    """Return the path of a target in the API."""
    name = TargetName.parse(key)
    quoted = [quote(part, safe="", errors="replace") for part in name]
    of_cluster = f"/clusters/{quoted[0]}" if name.cluster else ""
    return f"{of_cluster}/targets/{'/'.join(quoted[1:])}"


class _AnswerField:
    """Describes a field of JSON that another model has written."""

    def __init__(self, model: type[BaseModel]) -> None:
        self._model = model

    def __get_pydantic_json_schema__(self, _: object, describe: GetJsonSchemaHandler) -> Json:
        return describe(self._model.__pydantic_core_schema__)


class AnswerModel(BaseModel):
    """Has keys in camelCase; later versions may add some."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        from_attributes=True,
        use_attribute_docstrings=True,
        frozen=True,
    )

    def encoded(self) -> bytes:
        """Return it as JSON on one line, in ASCII."""
        text = self.model_dump_json(by_alias=True, exclude_defaults=True, ensure_ascii=True)
        return text.encode()

    def document(self) -> Json:
        """Return the data of `encoded`."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    def log_fields(self, only: Collection[str]) -> Json:
        """Return some of the fields with keys in snake_case, for a log line."""
        return self.model_dump(mode="json", include=set(only), exclude_defaults=True)


class BadParameter(AnswerModel):
    """An invalid parameter."""

    name: str
    value: str
    problem: str
    """The correct form."""


class ProblemDetails(AnswerModel):
    """An error, as of RFC 9457."""

    type: str
    """`about:blank`: the status is the kind of problem."""
    title: str
    status: int
    detail: Text
    """The sentence for people."""
    parameters: tuple[BadParameter, ...] = ()
    """All invalid parameters."""
    suggestions: tuple[Text, ...] = ()
    """Keys of targets with similar names."""


class ComponentState(AnswerModel):
    """A part of the daemon."""

    name: str
    ok: bool
    required: bool
    """Whether the daemon needs it to be ready."""
    message: Text
    since: Instant
    """When `ok` last changed."""


# -- targets -------------------------------------------------------------------------------------


class Fallback(AnswerModel):
    """The fallback that replaces a failing metric."""

    behavior: FallbackBehavior
    failed_syncs: int


class Metric(AnswerModel):
    """A metric and its target, in base units, or in percent for a utilization."""

    name: str
    type: str
    """The type of the metric's source, such as External."""
    target_type: str
    """utilization, value or average."""
    value: int | float | str | None
    """The text of a value that is not a finite number."""
    target: int | float
    text: str
    """Value and target as `kubectl get hpa` shows them."""
    proposed_replicas: int | None
    """The number of replicas that it asks for."""
    activity: Activity | None = None
    """With `idle`: whether it is above its activation."""
    fallback: Fallback | None = None


class Pause(AnswerModel):
    """A pause in force."""

    mode: PauseMode
    by: Text
    """Who paused it."""
    replicas: int | None = None
    """The number of replicas that it sets."""
    until: Instant | None = None
    prevented_replicas: int | None = None
    """The number of replicas without it."""


class Idle(AnswerModel):
    """The state of the `idle` rule of a target."""

    asleep: bool
    active: bool
    last_active: Instant
    goes_idle: Instant | None = None


class Hold(AnswerModel):
    """`holdScaleDownQuery` prevents scale-downs."""

    message: Sentence
    """The result of the query, or why it has no valid answer."""
    series: int = 0
    """The number of series that hold."""
    prevented_replicas: int | None = None
    """The number of replicas without it."""


class HpaState(AnswerModel):
    """The HorizontalPodAutoscaler that controls a target, with its last status."""

    name: str
    scaled_object: str = ""
    """The ScaledObject for which KEDA created it."""
    current_replicas: int | None = None
    desired_replicas: int | None = None
    """Null before its first decision."""
    metrics: tuple[str, ...] = ()
    """The values that it has read of each metric, as text."""
    inactive: str = ""
    """The reason if it does not scale by its metrics."""


class TargetSummary(AnswerModel):
    """The state of a target after a sync."""

    target: str
    """NAMESPACE/KIND/NAME, or NAMESPACE/KIND.GROUP/NAME if the kind is not of its usual group; with
    `clusters` after the name of the cluster and a /."""
    state: StateWord
    message: Sentence
    """The decision and its reason."""
    min_replicas: int
    max_replicas: int
    current_replicas: int | None
    desired_replicas: int | None
    metrics: tuple[Metric, ...]
    min_replicas_by: str | None = None
    """The origin of the minimum in force, if it is not the target's own."""
    max_replicas_by: str | None = None
    missing_bound: Sentence | None = None
    """Why the query of a bound has no value, or not a complete one."""
    pause: Pause | None = None
    idle: Idle | None = None
    hold: Hold | None = None
    mode: str = "live"
    """`live`, or `shadow`: decisions are made and never written."""
    controlled_by: Text | None = None
    """The other autoscaler that controls the target; nothing is written meanwhile."""
    hpa: HpaState | None = None
    """The HPA with which the target is compared."""

    @property
    def in_shadow(self) -> bool:
        """Whether it is never written: by its mode, or because another autoscaler controls it."""
        return self.mode == Mode.SHADOW or self.controlled_by is not None


class TargetState(TargetSummary):
    """The state of a target as of its last sync."""

    cluster: str = ""
    """The target's cluster, with `clusters`."""
    namespace: str
    kind: str
    name: str
    object_name: str = Field("", alias="object", description="The name of its PromqlAutoscaler.")
    since: Instant | None
    """The first sync of this state."""
    last_sync: Instant | None


class LeaderState(AnswerModel):
    """The leader of a cluster."""

    cluster: str = ""
    """Omitted without `clusters`."""
    leading: bool
    """Whether this daemon is the leader."""
    holder: HolderName
    """The process in the Lease; empty while there is no known leader."""
    url: Link
    """The URL of its pages; null if unknown."""


class TargetList(AnswerModel):
    """Targets, in the order of the configuration."""

    time: Instant
    components: tuple[ComponentState, ...] = ()
    """The parts of the daemon that are not ok."""
    leaders: tuple[LeaderState, ...] | None = None
    """The leader of each cluster; omitted without leader election."""
    targets: tuple[TargetState, ...]
    continue_: str | None = Field(None, alias="continue", description="Asks for the next page.")


class Schedule(AnswerModel):
    """A schedule: while it is open, its bounds replace the bounds of the target."""

    name: Text
    open: bool
    opens: Instant | None
    """The next opening; null while it is open."""
    closes: Instant
    min_replicas: int | None
    max_replicas: int | None


class Defaults(AnswerModel):
    """The settings that apply if the target's own configuration lacks them."""

    tolerance: float
    downscale_stabilization: str
    cpu_initialization_period: str
    initial_readiness_delay: str


class TargetDetail(AnswerModel):
    """A target: its state, and its configuration in force."""

    state: TargetState
    configuration: Annotated[AcceptedWrite, _AnswerField(TargetModel)]
    """An entry of `targets`, complete: with defaults and shared queries."""
    defaults: Defaults
    schedules: tuple[Schedule, ...]
    """Open schedules, and future ones."""


# -- the record ----------------------------------------------------------------------------------


class Change(AnswerModel):
    """A decision that changed something; it holds until the target's next change."""

    id: int
    """Orders the changes of all targets by the time of recording."""
    target: Text
    time: ExactInstant
    state: StateWord
    message: Text
    current_replicas: int | None
    desired_replicas: int | None
    min_replicas: int
    max_replicas: int
    marks: tuple[MarkWord, ...]
    by: Text | None
    """The field manager of another client that changed the count."""
    replicas_before: int | None = None
    """The count before another client's change; omitted without one."""


class Lapse(AnswerModel):
    """Nothing was recorded from `begin` to `end`: the daemon did not run, or lost it."""

    begin: ExactInstant
    end: ExactInstant


class ChangeList(AnswerModel):
    """Changes, the last first."""

    changes: tuple[Change, ...]
    lapses: tuple[Lapse, ...] = ()
    """The lapses of the record between the changes of this page."""
    continue_: str | None = Field(None, alias="continue", description="Asks for the next page.")


class Query(AnswerModel):
    """The PromQL of a metric."""

    promql: Sentence
    source: str | None = None
    """Its place: `queries.NAME`, the metric's own query, or a built-in one."""
    server: str | None = None
    """The Prometheus server, if not the default one."""


class MissingData(AnswerModel):
    """Data that is missing."""

    kind: GapKind
    detail: Text


class UnreadyPod(AnswerModel):
    """An unready pod, the rule, and when the rule ceases to apply."""

    pod: Text
    rule: UnreadyRule
    until: Instant | None = None


class DecisionPods(AnswerModel):
    """The number of ready pods, and the names of the others."""

    ready: int
    unready: tuple[Text, ...]
    missing: tuple[Text, ...]
    ignored: tuple[Text, ...]
    unready_by: tuple[UnreadyPod, ...] = ()


class DecisionMetric(Metric):
    """A metric of a decision, with the computation of its proposal, or its failure."""

    query: Query | None = None
    default: bool = False
    """Whether it is the default metric of a target without `metrics`."""
    failed: str | None = None
    """The HPA's reason for the lack of a proposal."""
    error: Text | None = None
    missing: tuple[MissingData, ...] = ()
    usage: str | None = None
    """The average over the pods from which a utilization is computed."""
    request: str | None = None
    total: str | None = None
    """The sum from which an average is computed."""
    ratio: float | str | None = None
    rule: Formula | None = None
    """The formula that gave the proposal."""
    values: tuple[str, ...] | None = None
    multiplier: int | None = None
    rebalanced_ratio: float | str | None = None
    pods: DecisionPods | None = None
    negative_sum: bool = False
    returned: Instant | None = None
    """When it was first read again after a gap."""
    nothing_down_before: Instant | None = None


class BreakerHold(AnswerModel):
    """The scale-down breaker prevents a scale-down of a target."""

    server: str
    until: Instant
    replicas: int


class TargetDecision(TargetSummary):
    """The decision of one sync, and the outcome of its write."""

    time: Instant
    outcome: Outcome
    cause: Text | None = None
    """The reason for the state, such as ScaleDownStabilized."""
    write: str | None = None
    """The outcome of the write; absent if none was needed."""
    held_until: Instant | None = None
    """The time until which nothing is written, because other clients reverse our changes."""
    breaker: BreakerHold | None = None
    """The scale-down breaker that holds it."""
    releases_at: Instant | None = None
    """The end of the hold."""


class ScaleRead(AnswerModel):
    """The scale that was read, or why it could not be read."""

    spec_replicas: int | None = None
    status_replicas: int | None = None
    selector: Sentence | None = None
    error: Sentence | None = None


class StageRecommendation(AnswerModel):
    """The recommendation that stabilization uses."""

    replicas: int
    time: Instant
    first: bool = False
    only_down: bool = False


class DecisionStage(AnswerModel):
    """A stage that changed the count, or kept it."""

    name: str
    before: int
    after: int
    reason: str
    held_by: StageRecommendation | None = None
    policy: ScalingPolicy | None = None
    unseen_until: Instant | None = None
    until: Instant | None = None


class RemovedPod(AnswerModel):
    """A pod that a scale-down removes."""

    pod: Text
    reason: RemovalReason
    value: str | None = None
    """Its value of `scaleDown.podDeletionCost`."""
    cost: int | None = None
    """Its `controller.kubernetes.io/pod-deletion-cost`."""


class PodRemovals(AnswerModel):
    """The pods that a scale-down removes; of `count` pods the known ones."""

    count: int
    pods: tuple[RemovedPod, ...]
    missing: Sentence | None = None
    """Why no value counts, or why pods did not get their cost."""


class DecisionCondition(AnswerModel):
    """One of the HPA's conditions."""

    type: str
    status: ConditionStatus
    reason: str
    message: Text
    last_transition_time: Instant | None = None


class DecisionEvent(AnswerModel):
    """One of the HPA's events."""

    type: str
    reason: str
    message: Text


class CountChange(AnswerModel):
    """Another client changed the count; a ``reversal`` undoes our own change."""

    before: int
    after: int
    manager: Text = ""
    reversal: bool = False


class Decision(TargetDecision):
    """A complete decision."""

    metrics: tuple[DecisionMetric, ...]
    zone: Zone
    """The kind of decision."""
    scale: ScaleRead
    stages: tuple[DecisionStage, ...]
    """The stages that changed the count, in order."""
    rescale: bool
    """Whether the count changes."""
    reason: Text
    """The reason as the HPA writes it."""
    conditions: tuple[DecisionCondition, ...]
    events: tuple[DecisionEvent, ...]
    current_metrics: tuple[AcceptedWrite, ...]
    """`currentMetrics` of the HPA's status."""
    removals: PodRemovals | None = None
    """The pods that a scale-down removes, with `scaleDown.podDeletionCost`."""
    foreign_change: CountChange | None = None
    """Another client's change of the count since the previous sync."""
    no_series: tuple[Text, ...] = ()
    """Which series exist if a query found none; only from `autoscaler plan`."""


class RecordedDecision(AnswerModel):
    """A decision that changed something."""

    id: int
    target: Text
    time: ExactInstant
    decision: Decision | None
    missing: Text | None = None
    """Why there is no decision: it is lost, or the target was removed."""


class DecisionList(AnswerModel):
    """Decisions, the last first; a page has fewer than `limit` if they are large."""

    decisions: tuple[RecordedDecision, ...]
    continue_: str | None = Field(None, alias="continue", description="Asks for the next page.")


class Explanation(AnswerModel):
    """The decision in force for a target at an instant, and its explanation."""

    target: Text
    at: ExactInstant
    time: ExactInstant
    """The time of the decision."""
    until: ExactInstant | None
    """The time of the next change; null if it still holds, or nothing was recorded since."""
    recorded_until: ExactInstant | None
    """If nothing was recorded at `at`: the last recorded instant before it."""
    state: StateWord
    message: Sentence
    lines: tuple[Text, ...]
    """The explanation, as `autoscaler plan --explain` shows it."""
    values: tuple[Sentence, ...]
    """The numbers of the last sync at or before `at`, if it is later than the decision."""
    differences: tuple[Sentence, ...]
    """The changes since the previous decision."""
    alternatives: tuple[Sentence, ...]
    """What would change this decision."""
    others: tuple[Sentence, ...]
    """Changes by other clients in the hour before."""
    decision: Annotated[Json, _AnswerField(Decision)] | None
    """The complete decision; null if it is lost, or the target was removed."""
    recomputed: bool | None = None
    """Whether deciding again gives the same result; only with `autoscaler explain --recompute`."""

    @property
    def validity(self) -> str:
        """Return the text for how long the decision was valid."""
        if self.recorded_until is not None:
            return f"valid when last recorded, at {rfc3339(self.recorded_until)}"
        if self.until is None:
            return "still valid"
        return f"valid until {rfc3339_milli(self.until)}"


# -- agreement -----------------------------------------------------------------------------------


class FieldDifference(AnswerModel):
    """A field that has another value in the HPA."""

    field: str
    ours: str
    theirs: str


class ReadingDifference(AnswerModel):
    """A metric whose HPA value equals none of our readings of the last period."""

    metric: Sentence
    ours: str
    theirs: str
    difference_percent: float | None = None
    """The HPA's value divided by ours."""


class Disagreement(AnswerModel):
    """A time in which the HPA asked for another count; the counts are the largest difference."""

    begin: ExactInstant
    end: ExactInstant
    ours: int
    theirs: int
    message: Sentence
    fields: tuple[FieldDifference, ...] = ()
    """The fields that differed in it."""
    readings: tuple[ReadingDifference, ...] = ()
    """The readings that differed in it, each where it differed most."""


class UncomparedTime(AnswerModel):
    """For how long the counts were not compared for a reason."""

    reason: Sentence
    seconds: float


class LastDay(AnswerModel):
    """The part of the last 24 hours within the requested period."""

    compared_seconds: float
    agreement: float | None


class AgreementTime(AnswerModel):
    """The time of one kind."""

    kind: str
    """`equal`, `withinPeriod`, `different` or `notCompared`."""
    seconds: float
    share: float
    """The share of the compared time; for `notCompared`, of all time."""
    stretches: int
    longest_seconds: float


class TargetAgreement(AnswerModel):
    """The agreement of a target in shadow with its HPA."""

    target: str
    since: Instant | None
    """The first known instant of the requested time; null if nothing is known."""
    compared_seconds: float
    agreement: float | None
    """The share of time in which both ask for the same count, at once or within one period."""
    equal: float | None
    """The share of time in which both ask for the same count at once."""
    last_day: LastDay
    times: tuple[AgreementTime, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()
    """The longest intervals, at most 100."""
    not_compared: tuple[UncomparedTime, ...] = ()
    """The reasons, longest time first."""
    differences: tuple[FieldDifference, ...] = ()
    """The fields that differ now, whether or not they have changed a count."""
    hpa: HpaState | None = None
    mode: str = "shadow"
    verdict: str
    """`ready`, `early`, `differs` or `notCompared`, by the total time and the last day."""
    message: Sentence


class AgreementList(AnswerModel):
    """The agreement of targets in shadow, in the order of the configuration."""

    time: Instant
    live: int
    """The number of targets that are not in shadow."""
    shadow: int
    targets: tuple[TargetAgreement, ...]


# -- the daemon ----------------------------------------------------------------------------------


class Replicas(AnswerModel):
    """Sums over the targets with a known count."""

    targets: int
    current: int
    desired: int
    minimum: int
    maximum: int


class FleetTotals(AnswerModel):
    """Sums over all targets."""

    time: Instant
    targets: int
    states: dict[str, int]
    """The number of targets in each state."""
    failing: int
    at_maximum: int
    """The number of targets at their maximum that need more."""
    replicas: Replicas
    ready: bool
    leads: bool | None
    """Whether this daemon writes to any cluster; null without leader election."""
    leaders: tuple[LeaderState, ...] | None = None
    """The leader of each cluster; omitted without leader election."""


class ServerBreaker(AnswerModel):
    """The scale-down breaker of a Prometheus server."""

    server: str
    tripped: bool
    until: Instant | None
    held: int
    """The number of held targets."""
    targets: int


class RecordState(AnswerModel):
    """The record of decisions."""

    on: bool
    from_: ExactInstant | None = Field(
        alias="from", description="The first instant that is recorded."
    )
    to: ExactInstant | None
    problem: Text | None
    """Why it cannot be read."""


class ShardState(AnswerModel):
    """The part of the targets that this daemon has."""

    number: int
    shards: int
    urls: tuple[Link, ...]
    """The URL of each shard's pages; null if unknown."""


class DaemonHealth(AnswerModel):
    """The daemon itself."""

    version: str
    ready: bool
    stalled: str | None
    """The sync that hangs."""
    leads: bool | None
    """Whether this daemon writes to any cluster; null without leader election."""
    leaders: tuple[LeaderState, ...] | None = None
    """The leader of each cluster; omitted without leader election."""
    shard: ShardState | None = None
    """Omitted without `shards`."""
    components: tuple[ComponentState, ...]
    breakers: tuple[ServerBreaker, ...]
    record: RecordState
