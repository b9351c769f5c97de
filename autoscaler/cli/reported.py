"""How targets stand, as the page `/api/v1/targets` of a daemon reports it."""

from collections.abc import Mapping, Sequence

from pydantic import AwareDatetime, BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

Raw = Mapping[str, object]


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
    """Those that are not ok; older daemons do not tell."""
    targets: tuple[ReportedTarget, ...]

    def chosen(self, names: Sequence[str]) -> "Report":
        """Return the report of the targets that are named; raises UnknownTargetError.

        A name is NAMESPACE/NAME or NAMESPACE/KIND/NAME; without one all are chosen.
        """
        if not names:
            return self
        known = {key for one in self.targets for key in _names(one)}
        unknown = [name for name in names if name not in known]
        if unknown:
            raise UnknownTargetError(unknown, [one.target for one in self.targets])
        wanted = frozenset(names)
        chosen = tuple(one for one in self.targets if not wanted.isdisjoint(_names(one)))
        return self.model_copy(update={"targets": chosen})


def _names(one: ReportedTarget) -> tuple[str, str]:
    return one.target, f"{one.namespace}/{one.name}"


class UnknownTargetError(Exception):
    """Names that no target of the daemon has; the text is a sentence."""

    _MOST = 5

    def __init__(self, unknown: Sequence[str], known: Sequence[str]) -> None:
        some = ", ".join(known[: self._MOST])
        more = f" and {len(known) - self._MOST} more" if len(known) > self._MOST else ""
        there = f"there are: {some}{more}" if known else "the daemon has none"
        super().__init__(f"no target is called {', '.join(unknown)}; {there}")
