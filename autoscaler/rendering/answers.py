"""What the API, `-o json` and the log say: one model for each answer, built from a decision once.

The OpenAPI document is made of these models, and the commands read a daemon's answers with them.
Counts that are not known are null.  A field that has a default is left out while it has that.
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
from autoscaler.core.decision import Activity, Formula, Outcome, UnreadyRule, Zone
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
"""A Unix time, RFC 3339 in UTC in JSON, to the second."""
ExactInstant = Annotated[float, *_instant(rfc3339_milli)]
"""The same to the millisecond."""
StateWord = Annotated[str, WithJsonSchema({"type": "string", "enum": [*State]})]
"""A `State`; another version may have more."""
MarkWord = Annotated[str, WithJsonSchema({"type": "string", "enum": [mark.word for mark in Mark]})]


def _escaped(value: Any) -> Any:
    """Return JSON whose texts have no lone surrogates, which UTF-8 cannot hold."""
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
    """Return a text that is the short address of a web server, without credentials or a query."""
    if not isinstance(text, str) or len(text) > _LONGEST_LINK:
        return None
    return text if _ADDRESS.fullmatch(text) else None


Text = Annotated[str, BeforeValidator(_escaped)]
"""A text that may be of any characters: of a file, a server or a workload."""
Sentence = Annotated[str, BeforeValidator(_one_line)]
"""A text on one line, no longer than a sentence may be."""
HolderName = Annotated[str, BeforeValidator(lambda name: printable(str(name), _LONGEST_HOLDER))]
"""A name in a Lease, which whoever may write there chooses."""
Link = Annotated[str | None, BeforeValidator(_link)]
"""An address that may be followed; null in place of any other text."""
AcceptedWrite = Annotated[Json, BeforeValidator(_escaped)]
"""JSON with such texts."""


def path_of_target(key: str) -> str:
    """Return the path of a target in the API."""
    name = TargetName.parse(key)
    quoted = [quote(part, safe="", errors="replace") for part in name]
    of_cluster = f"/clusters/{quoted[0]}" if name.cluster else ""
    return f"{of_cluster}/targets/{'/'.join(quoted[1:])}"


class _AnswerField:
    """Describes a field of JSON as a model that wrote it."""

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
        """Write it as JSON on one line, in ASCII whatever its texts hold."""
        text = self.model_dump_json(by_alias=True, exclude_defaults=True, ensure_ascii=True)
        return text.encode()

    def document(self) -> Json:
        """Return what `encoded` writes."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    def log_fields(self, only: Collection[str]) -> Json:
        """Return some of the fields with keys in snake_case, as of a log line."""
        return self.model_dump(mode="json", include=set(only), exclude_defaults=True)


class BadParameter(AnswerModel):
    """A parameter that cannot be."""

    name: str
    value: str
    problem: str
    """What would be right."""


class ProblemDetails(AnswerModel):
    """An error, as of RFC 9457."""

    type: str
    """`about:blank`: the status says what kind of problem it is."""
    title: str
    status: int
    detail: Text
    """The sentence for people."""
    parameters: tuple[BadParameter, ...] = ()
    """All parameters that cannot be."""
    suggestions: tuple[Text, ...] = ()
    """Keys of targets that may have been meant."""


class ComponentState(AnswerModel):
    """A part of the daemon."""

    name: str
    ok: bool
    required: bool
    """Whether the daemon is not ready without it."""
    message: Text
    since: Instant
    """When `ok` last changed."""


# -- targets -------------------------------------------------------------------------------------


class Fallback(AnswerModel):
    """The fallback that replaces a failing metric."""

    behavior: FallbackBehavior
    failed_syncs: int


class Metric(AnswerModel):
    """A metric against its target, in base units, or in percent for a utilization."""

    name: str
    type: str
    """The type of the metric's source, such as External."""
    target_type: str
    """utilization, value or average."""
    value: int | float | str | None
    """A text for a value that is not a finite number."""
    target: int | float
    text: str
    """Both as `kubectl get hpa` writes them."""
    proposed_replicas: int | None
    """What it asks for."""
    activity: Activity | None = None
    """With `idle`: whether it is active."""
    fallback: Fallback | None = None


class Pause(AnswerModel):
    """A pause that holds."""

    mode: PauseMode
    by: Text
    """Who paused it."""
    replicas: int | None = None
    """The count that it asks for."""
    until: Instant | None = None
    prevented_replicas: int | None = None
    """The count that there would be without it."""


class Idle(AnswerModel):
    """The state of the `idle` rule of a target."""

    asleep: bool
    active: bool
    last_active: Instant
    goes_idle: Instant | None = None


class Hold(AnswerModel):
    """`holdScaleDownQuery` lets nothing go down."""

    message: Sentence
    """Why: what the query returns, or why it has no answer that counts."""
    series: int = 0
    """How many series hold."""
    prevented_replicas: int | None = None
    """The count that there would be without it."""


class HpaState(AnswerModel):
    """The HorizontalPodAutoscaler that controls a target, as its status was last."""

    name: str
    scaled_object: str = ""
    """The ScaledObject for which KEDA made it."""
    current_replicas: int | None = None
    desired_replicas: int | None = None
    """Null before it has decided anything."""
    metrics: tuple[str, ...] = ()
    """What it has read of each metric, in words."""
    inactive: str = ""
    """The reason, where it does not scale by its metrics."""


class TargetSummary(AnswerModel):
    """The state of a target after a sync."""

    target: str
    """NAMESPACE/KIND/NAME, of a kind that is not of its usual group NAMESPACE/KIND.GROUP/NAME; with
    `clusters` the name of the cluster and a / stand before it."""
    state: StateWord
    message: Sentence
    """What was decided, and why."""
    min_replicas: int
    max_replicas: int
    current_replicas: int | None
    desired_replicas: int | None
    metrics: tuple[Metric, ...]
    min_replicas_by: str | None = None
    """What sets the minimum in force, if not the target itself."""
    max_replicas_by: str | None = None
    missing_bound: Sentence | None = None
    """Why the query of a bound has no value, or no whole one."""
    pause: Pause | None = None
    idle: Idle | None = None
    hold: Hold | None = None
    mode: str = "live"
    """`live`, or `shadow`: decided, and never written."""
    controlled_by: Text | None = None
    """The other autoscaler that controls the target, which is not written meanwhile."""
    hpa: HpaState | None = None
    """That HPA, with which the target is compared."""

    @property
    def in_shadow(self) -> bool:
        """Whether it is never written: by its mode, or because another autoscaler controls it."""
        return self.mode == Mode.SHADOW or self.controlled_by is not None


class TargetState(TargetSummary):
    """The state of a target as of its last sync."""

    cluster: str = ""
    """Its cluster, with `clusters`."""
    namespace: str
    kind: str
    name: str
    since: Instant | None
    """The first sync of this state."""
    last_sync: Instant | None


class LeaderState(AnswerModel):
    """Who leads a cluster."""

    cluster: str = ""
    """Left out without `clusters`."""
    leading: bool
    """Whether this daemon does."""
    holder: HolderName
    """The process that the Lease names; empty while nobody is known to lead."""
    url: Link
    """Where its pages are, if it says so; null if not."""


class TargetList(AnswerModel):
    """Targets, in the order of the configuration."""

    time: Instant
    components: tuple[ComponentState, ...] = ()
    """The parts of the daemon that are not ok."""
    leaders: tuple[LeaderState, ...] | None = None
    """Who leads each cluster; left out without leader election."""
    targets: tuple[TargetState, ...]
    continue_: str | None = Field(None, alias="continue", description="Asks for the next page.")


class Schedule(AnswerModel):
    """A schedule: while it is open, its bounds replace the bounds of the target."""

    name: Text
    open: bool
    opens: Instant | None
    """When it opens next; null while it is open."""
    closes: Instant
    min_replicas: int | None
    max_replicas: int | None


class Defaults(AnswerModel):
    """The settings that apply where the target's own configuration says nothing."""

    tolerance: float
    downscale_stabilization: str
    cpu_initialization_period: str
    initial_readiness_delay: str


class TargetDetail(AnswerModel):
    """A target: its state, and the configuration that is in force for it."""

    state: TargetState
    configuration: Annotated[AcceptedWrite, _AnswerField(TargetModel)]
    """An entry of `targets`, complete: defaults and shared queries are written out."""
    defaults: Defaults
    schedules: tuple[Schedule, ...]
    """Those that are open, and those to come."""


# -- the record ----------------------------------------------------------------------------------


class Change(AnswerModel):
    """A decision in which something changed; it holds until the target's next one."""

    id: int
    """Orders the changes of all targets as they were recorded."""
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
    """The field manager of others who changed the count."""
    replicas_before: int | None = None
    """The count that others changed; left out where nobody else did."""


class Lapse(AnswerModel):
    """Nothing was recorded from `begin` to `end`: the daemon did not run, or lost it."""

    begin: ExactInstant
    end: ExactInstant


class ChangeList(AnswerModel):
    """Changes, the last first."""

    changes: tuple[Change, ...]
    lapses: tuple[Lapse, ...] = ()
    """When nothing was recorded, between the changes of this page."""
    continue_: str | None = Field(None, alias="continue", description="Asks for the next page.")


class Query(AnswerModel):
    """The PromQL of a metric."""

    promql: Sentence
    source: str | None = None
    """Where it is written: `queries.NAME`, the metric's own, a built-in one."""
    server: str | None = None
    """The Prometheus server that is asked, if not the default one."""


class MissingData(AnswerModel):
    """Data that is missing."""

    kind: GapKind
    detail: Text


class UnreadyPod(AnswerModel):
    """An unready pod, the rule, and from when on it no longer applies."""

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
    """The HPA's reason why there is no proposal."""
    error: Text | None = None
    missing: tuple[MissingData, ...] = ()
    usage: str | None = None
    """The average of the pods that a utilization is made of."""
    request: str | None = None
    total: str | None = None
    """The sum that an average is made of."""
    ratio: float | str | None = None
    rule: Formula | None = None
    """The formula that gave the proposal."""
    values: tuple[str, ...] | None = None
    multiplier: int | None = None
    rebalanced_ratio: float | str | None = None
    pods: DecisionPods | None = None
    negative_sum: bool = False
    returned: Instant | None = None
    """When it was read again after a gap."""
    nothing_down_before: Instant | None = None


class BreakerHold(AnswerModel):
    """The scale-down breaker holds a target that would scale down."""

    server: str
    until: Instant
    replicas: int


class TargetDecision(TargetSummary):
    """What was decided in one sync, and what became of it."""

    time: Instant
    outcome: Outcome
    cause: Text | None = None
    """The reason for the state, such as ScaleDownStabilized."""
    write: str | None = None
    """What became of the write; absent where none was due."""
    held_until: Instant | None = None
    """The time until which nothing is written, because other clients undo our changes."""
    breaker: BreakerHold | None = None
    """The scale-down breaker that holds it."""
    releases_at: Instant | None = None
    """When what holds it ends."""


class ScaleRead(AnswerModel):
    """The scale that was read, or why it was not."""

    spec_replicas: int | None = None
    status_replicas: int | None = None
    selector: Sentence | None = None
    error: Sentence | None = None


class StageRecommendation(AnswerModel):
    """The recommendation that stabilization goes by."""

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
    """Somebody else changed the count; a ``reversal`` undoes our own change."""

    before: int
    after: int
    manager: Text = ""
    reversal: bool = False


class Decision(TargetDecision):
    """A whole decision."""

    metrics: tuple[DecisionMetric, ...]
    zone: Zone
    """What kind of decision it is."""
    scale: ScaleRead
    stages: tuple[DecisionStage, ...]
    """What changed the count on its way, in order."""
    rescale: bool
    """Whether the count changes."""
    reason: Text
    """As the HPA writes it."""
    conditions: tuple[DecisionCondition, ...]
    events: tuple[DecisionEvent, ...]
    current_metrics: tuple[AcceptedWrite, ...]
    """`currentMetrics` of the HPA's status."""
    foreign_change: CountChange | None = None
    """Who else changed the count since the sync before."""
    no_series: tuple[Text, ...] = ()
    """What there is where a query found no series; of `autoscaler plan` only."""


class RecordedDecision(AnswerModel):
    """A decision in which something changed."""

    id: int
    target: Text
    time: ExactInstant
    decision: Decision | None
    missing: Text | None = None
    """Why there is no decision: it is lost, or the target was removed."""


class DecisionList(AnswerModel):
    """Decisions, the last first; a page is shorter than `limit` where they are large."""

    decisions: tuple[RecordedDecision, ...]
    continue_: str | None = Field(None, alias="continue", description="Asks for the next page.")


class Explanation(AnswerModel):
    """The decision that held for a target at an instant, and why."""

    target: Text
    at: ExactInstant
    time: ExactInstant
    """When it was decided."""
    until: ExactInstant | None
    """When the next change came; null if it still holds, or nothing was recorded since."""
    recorded_until: ExactInstant | None
    """Set if nothing was recorded at `at`: the last instant before it that was."""
    state: StateWord
    message: Sentence
    lines: tuple[Text, ...]
    """The explanation, as `autoscaler plan --explain` shows it."""
    values: tuple[Sentence, ...]
    """The numbers of the last sync at or before `at`, if that is a later one."""
    differences: tuple[Sentence, ...]
    """The changes since the previous decision."""
    alternatives: tuple[Sentence, ...]
    """What would change this decision."""
    others: tuple[Sentence, ...]
    """Changes by other clients in the hour before."""
    decision: Annotated[Json, _AnswerField(Decision)] | None
    """All of it; null if it is lost, or the target was removed."""
    recomputed: bool | None = None
    """Whether deciding again has the same result; only with `autoscaler explain --recompute`."""

    @property
    def validity(self) -> str:
        """How long the decision was valid, in words."""
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
    """A metric whose HPA value matches none of our readings of the last period."""

    metric: Sentence
    ours: str
    theirs: str
    difference_percent: float | None = None
    """Theirs over ours."""


class Disagreement(AnswerModel):
    """A time in which the HPA wanted another count; the counts are those that differ most."""

    begin: ExactInstant
    end: ExactInstant
    ours: int
    theirs: int
    message: Sentence
    fields: tuple[FieldDifference, ...] = ()
    """The fields that differed then."""
    readings: tuple[ReadingDifference, ...] = ()
    """The readings that differed then, each where it differed most."""


class UncomparedTime(AnswerModel):
    """How long the counts were not compared for a reason."""

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
    """Of the time that was compared; of all of it for `notCompared`."""
    stretches: int
    longest_seconds: float


class TargetAgreement(AnswerModel):
    """The agreement of a target in shadow with its HPA."""

    target: str
    since: Instant | None
    """The first that is known of the time that was asked for; null where nothing is known."""
    compared_seconds: float
    agreement: float | None
    """The share in which both want the same count, at once or within one period."""
    equal: float | None
    """The share in which both want the same count at once."""
    last_day: LastDay
    times: tuple[AgreementTime, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()
    """The longest ones, at most a hundred."""
    not_compared: tuple[UncomparedTime, ...] = ()
    """The reasons, the one with the most time first."""
    differences: tuple[FieldDifference, ...] = ()
    """The fields that differ now, whether or not they have changed a count."""
    hpa: HpaState | None = None
    mode: str = "shadow"
    verdict: str
    """`ready`, `early`, `differs` or `notCompared`, of all of the time and of the last day."""
    message: Sentence


class AgreementList(AnswerModel):
    """How the targets in shadow agree, in the order of the configuration."""

    time: Instant
    live: int
    """How many targets are not in shadow."""
    shadow: int
    targets: tuple[TargetAgreement, ...]


# -- the daemon ----------------------------------------------------------------------------------


class Replicas(AnswerModel):
    """Sums over the targets whose count is known."""

    targets: int
    current: int
    desired: int
    minimum: int
    maximum: int


class FleetTotals(AnswerModel):
    """All targets in sums."""

    time: Instant
    targets: int
    states: dict[str, int]
    """How many targets are in each state."""
    failing: int
    at_maximum: int
    """How many are at their maximum and need more."""
    replicas: Replicas
    ready: bool
    leads: bool | None
    """Whether this daemon writes to any cluster; null without leader election."""
    leaders: tuple[LeaderState, ...] | None = None
    """Who leads each cluster; left out without leader election."""


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
    """Which part of the targets this daemon has."""

    number: int
    shards: int
    urls: tuple[Link, ...]
    """Where the pages of each shard are; null where that is not known."""


class DaemonHealth(AnswerModel):
    """The daemon itself."""

    version: str
    ready: bool
    stalled: str | None
    """Which sync hangs."""
    leads: bool | None
    """Whether this daemon writes to any cluster; null without leader election."""
    leaders: tuple[LeaderState, ...] | None = None
    """Who leads each cluster; left out without leader election."""
    shard: ShardState | None = None
    """Left out without `shards`."""
    components: tuple[ComponentState, ...]
    breakers: tuple[ServerBreaker, ...]
    record: RecordState
