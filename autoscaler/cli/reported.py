"""The page `/api/v1/targets` of a daemon, as read back."""

from collections.abc import Sequence

from pydantic import AwareDatetime, BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from autoscaler.cli.target_names import chosen


class _Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class ReportedMetric(_Model):
    """One metric: ``text`` is its value and its target, as `kubectl get hpa` writes them."""

    name: str
    text: str


class ReportedTarget(_Model):
    """One target; counts that are not known are None."""

    target: str
    namespace: str
    name: str
    min_replicas: int
    max_replicas: int
    current_replicas: int | None
    desired_replicas: int | None
    state: str
    since: AwareDatetime | None
    message: str
    metrics: tuple[ReportedMetric, ...]


class ReportedComponent(_Model):
    """A part of the daemon that is not ok."""

    name: str
    message: str
    since: AwareDatetime


class Report(_Model):
    """All targets, in the order of the configuration, and the daemon's time."""

    time: AwareDatetime
    components: tuple[ReportedComponent, ...] = ()
    """Those that are not ok; older daemons do not list them."""
    targets: tuple[ReportedTarget, ...]

    def chosen(self, names: Sequence[str]) -> "Report":
        """Return the report of the targets that are named; raises UnknownTargetError.

        A name is NAMESPACE/NAME or NAMESPACE/KIND/NAME; without one all are chosen.
        """
        keys = chosen(names, [one.target for one in self.targets])
        targets = tuple(one for one in self.targets if one.target in keys)
        return self.model_copy(update={"targets": targets})
