"""What the endpoints answer, for the OpenAPI document; tests hold the answers to it.

Counts that are not known are null.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from autoscaler.config.spec_model import TargetModel
from autoscaler.core.decision import Outcome, Zone
from autoscaler.core.extensions import PauseMode
from autoscaler.record.rows import Mark
from autoscaler.rendering.chart import MarkKind, ShadeKind
from autoscaler.rendering.verdict import State

Instant = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""RFC 3339 in UTC."""
Line = list[float | None]
"""One number for each of `times`, which holds until the next; null where there is none."""


class Answer(BaseModel):
    """Has keys in camelCase; later versions may add some."""

    model_config = ConfigDict(alias_generator=to_camel, use_attribute_docstrings=True)


class BadParameter(Answer):
    """A parameter that cannot be."""

    name: str
    value: str
    problem: str
    """What would be right."""


class Problem(Answer):
    """An error, as of RFC 9457."""

    type: str
    """`about:blank`: the status says what kind of problem it is."""
    title: str
    status: int
    detail: str
    """The sentence for people."""
    parameters: list[BadParameter] | None = None
    """All parameters that cannot be."""
    suggestions: list[str] | None = None
    """Keys of targets that may have been meant."""


class Component(Answer):
    """A part of the daemon, as in `/readyz`."""

    name: str
    ok: bool
    required: bool
    """Whether the daemon is not ready without it."""
    message: str
    since: Instant
    """When `ok` last changed."""


# -- targets -------------------------------------------------------------------------------------


class Fallback(Answer):
    """The fallback that stands for a metric that fails."""

    behavior: str
    failed_syncs: int


class Metric(Answer):
    """A metric against its target, in base units, or in percent for a utilization."""

    name: str
    type: str
    """The type of the metric's source, such as External."""
    target_type: str
    """utilization, value or average."""
    value: float | str | None
    """A text for what is no finite number."""
    target: float
    text: str
    """Both as `kubectl get hpa` writes them."""
    proposed_replicas: int | None
    """What it asks for."""
    activity: dict[str, Any] | str | None = None
    """With `idle`: whether it is active."""
    fallback: Fallback | None = None


class Pause(Answer):
    """A pause that holds."""

    mode: PauseMode
    by: str
    """Who paused it."""
    replicas: int | None = None
    """The count that it asks for."""
    until: Instant | None = None
    prevented_replicas: int | None = None
    """The count that there would be without it."""


class Idle(Answer):
    """How a target stands with its `idle` rule."""

    asleep: bool
    active: bool
    last_active: Instant
    goes_idle: Instant | None = None


class TargetState(Answer):
    """How a target stands, as of its last sync."""

    target: str
    """NAMESPACE/KIND/NAME, of a kind that is not of its usual group NAMESPACE/KIND.GROUP/NAME."""
    namespace: str
    kind: str
    name: str
    state: State
    since: Instant | None
    """The first sync of this state."""
    last_sync: Instant | None
    message: str
    """What was decided, and why."""
    min_replicas: int
    max_replicas: int
    current_replicas: int | None
    desired_replicas: int | None
    metrics: list[Metric]
    min_replicas_by: str | None = None
    """What sets the minimum in force, if not the target itself."""
    max_replicas_by: str | None = None
    missing_bound: str | None = None
    """Why the query of a bound has no value."""
    pause: Pause | None = None
    idle: Idle | None = None


class TargetList(Answer):
    """Targets, in the order of the configuration."""

    time: Instant
    components: list[Component]
    """The parts of the daemon that are not ok."""
    targets: list[TargetState]
    continue_: str | None = Field(alias="continue", description="Asks for the next page.")


class Schedule(Answer):
    """A schedule: while it is open, its bounds replace those of the target."""

    name: str
    open: bool
    opens: Instant | None
    """When it opens next; null while it is open."""
    closes: Instant
    min_replicas: int | None
    max_replicas: int | None


class Defaults(Answer):
    """The settings that apply where the target's own configuration says nothing."""

    tolerance: float
    downscale_stabilization: str
    cpu_initialization_period: str
    initial_readiness_delay: str


class TargetDetail(Answer):
    """A target: its state, and the configuration that is in force for it."""

    state: TargetState
    configuration: TargetModel
    """An entry of `targets`, complete: defaults and shared queries are written out."""
    defaults: Defaults
    schedules: list[Schedule]
    """Those that are open, and those to come."""


# -- the record ----------------------------------------------------------------------------------


MarkWord = Annotated[str, WithJsonSchema({"type": "string", "enum": [mark.word for mark in Mark]})]


class Change(Answer):
    """A decision in which something changed; it holds until the target's next one."""

    id: int
    """Orders the changes of all targets as they were recorded."""
    target: str
    time: Instant
    state: State
    message: str
    current_replicas: int | None
    desired_replicas: int | None
    min_replicas: int
    max_replicas: int
    marks: list[MarkWord]
    by: str | None
    """The field manager of others who changed the count."""


class Lapse(Answer):
    """Nothing was recorded from `begin` to `end`: the daemon did not run, or lost it."""

    begin: Instant
    end: Instant


class ChangeList(Answer):
    """Changes, the last first."""

    changes: list[Change]
    lapses: list[Lapse]
    """When nothing was recorded, between the changes of this page."""
    continue_: str | None = Field(alias="continue", description="Asks for the next page.")


class DecisionMetric(Metric):
    """A metric of a decision, with how it came to its proposal, or why it did not."""

    model_config = ConfigDict(extra="allow")
    query: dict[str, Any] | None = None
    """Its PromQL, and the server that was asked, if not the default one."""


class Decision(Answer):
    """A whole decision, as `autoscaler plan -o json` shows it."""

    target: str
    time: Instant
    state: State
    message: str
    outcome: Outcome
    min_replicas: int
    max_replicas: int
    current_replicas: int | None
    desired_replicas: int | None
    metrics: list[DecisionMetric]
    cause: str | None = None
    """The reason for the state, such as ScaleDownStabilized."""
    write: str | None = None
    """What became of the write; absent where none was due."""
    controlled_by: str | None = None
    """The other autoscaler that controls the target."""
    held_until: Instant | None = None
    """Until when nothing is written, since others undo our changes."""
    breaker: dict[str, Any] | None = None
    """The scale-down breaker that holds it."""
    releases_at: Instant | None = None
    """When what holds it ends."""
    min_replicas_by: str | None = None
    max_replicas_by: str | None = None
    missing_bound: str | None = None
    pause: Pause | None = None
    idle: Idle | None = None
    zone: Zone
    """What kind of decision it is."""
    scale: dict[str, Any]
    """The scale that was read, or why it was not."""
    stages: list[dict[str, Any]]
    """What changed the count on its way, in order."""
    rescale: bool
    """Whether the count is to be changed."""
    reason: str
    """As the HPA writes it."""
    conditions: list[dict[str, Any]]
    """The HPA's conditions."""
    events: list[dict[str, Any]]
    """The HPA's events."""
    current_metrics: list[dict[str, Any]] | None = None
    """`currentMetrics` of the HPA's status."""
    foreign_change: dict[str, Any] | None = None
    """Who else changed the count since the sync before."""


class RecordedDecision(Answer):
    """A decision in which something changed."""

    id: int
    target: str
    time: Instant
    decision: Decision | None
    missing: str | None = None
    """Why there is no decision: it is lost, or the target was removed."""


class DecisionList(Answer):
    """Decisions, the last first; a page is shorter than `limit` where they are large."""

    decisions: list[RecordedDecision]
    continue_: str | None = Field(alias="continue", description="Asks for the next page.")


class Explanation(Answer):
    """The decision that held for a target at an instant, and why."""

    target: str
    at: Instant
    time: Instant
    """When it was decided."""
    until: Instant | None
    """When the next change came; null if it still holds, or nothing was recorded since."""
    recorded_until: Instant | None
    """Set if nothing was recorded at `at`: the last instant before it that was."""
    state: State
    message: str
    lines: list[str]
    """The explanation, as `autoscaler plan --explain` shows it."""
    values: list[str]
    """The numbers of the last sync at or before `at`, if that is a later one."""
    differences: list[str]
    """What differs from the change before."""
    alternatives: list[str]
    """What would have had to be different for another count."""
    others: list[str]
    """Who else wrote."""
    decision: Decision | None
    """All of it; null if it is lost, or the target was removed."""


# -- the chart -----------------------------------------------------------------------------------


class Band(Answer):
    """What lies between two lines."""

    low: Line
    high: Line


class MetricLines(Answer):
    """A metric over time: its value against its target, and what it asks for."""

    name: str
    unit: str
    """Of its values, such as `bytes per pod`; empty for a plain number."""
    target: float
    """The last one."""
    targets: Line
    value: Line
    low: Line
    """The least until the next instant."""
    high: Line
    proposal: Line
    proposal_low: Line
    proposal_high: Line


class Shade(Answer):
    """A time in which something held."""

    kind: ShadeKind
    begin: Instant
    end: Instant
    text: str


class ChartMark(Answer):
    """A change of the count."""

    time: Instant
    kind: MarkKind
    before: int
    after: int
    text: str


class Chart(Answer):
    """A target over time: a line has a number for each of `times`, which holds until the next."""

    target: str
    from_: Instant = Field(alias="from")
    to: Instant
    times: list[Instant]
    current: Line
    desired: Line
    minimum: Line
    maximum: Line
    stabilization: Band
    """Within it stabilization leaves a count; beyond it the count goes to the nearest edge."""
    policies: Band
    """How far policies and bounds permit a count to go at once."""
    metrics: list[MetricLines]
    shades: list[Shade]
    marks: list[ChartMark]


# -- the daemon ----------------------------------------------------------------------------------


class Replicas(Answer):
    """Sums over the targets whose count is known."""

    targets: int
    current: int
    desired: int
    minimum: int
    maximum: int


class Fleet(Answer):
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
    """Whether this daemon writes; null without leader election."""


class Breaker(Answer):
    """The scale-down breaker of a Prometheus server."""

    server: str
    tripped: bool
    until: Instant | None
    held: int
    """So many targets it holds."""
    targets: int


class RecordState(Answer):
    """The record of decisions."""

    on: bool
    from_: Instant | None = Field(alias="from", description="The first instant that is recorded.")
    to: Instant | None
    problem: str | None
    """Why it cannot be read."""


class Health(Answer):
    """The daemon itself."""

    version: str
    ready: bool
    stalled: str | None
    """Which sync hangs."""
    leads: bool | None
    """Whether this daemon writes; null without leader election."""
    components: list[Component]
    breakers: list[Breaker]
    record: RecordState
