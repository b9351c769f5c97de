"""Manifests -> the targets of one configuration, and what became of each manifest."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from autoscaler.documents import child, describe, one_line, path_of
from autoscaler.importers import horizontal_pod_autoscalers as autoscalers
from autoscaler.importers.adapter_rules import AdapterRules, rules_in
from autoscaler.importers.drafts import Comment, Resolved, Shared, TargetDraft, Unresolved
from autoscaler.importers.fields import Entry, Fields, Outcome
from autoscaler.importers.manifests import HPA, SCALED_JOB, Manifest, Role
from autoscaler.importers.scaled_objects import Authentications
from autoscaler.importers.scaled_objects import draft_of as scaled_object
from autoscaler.importers.values import not_filled_in, placeholder

FindSeries = Callable[[str], list[Mapping[str, str]]]
"""Returns the label sets of the series that a selector of Prometheus finds."""

NO_NAMESPACE = "default"
"""The namespace of a manifest that names none, as it is for kubectl unless told otherwise."""

UNKNOWN_URL = "http://prometheus:9090"
"""Stands where no source names a Prometheus."""

_TARGET_KEYS = ("namespace", "scaleTargetRef", "undecided", "mode")
_TOOLS = "it belongs to the tools that put it there"
_METADATA = {
    "name": "a target is called by its workload",
    "labels": "a target has no labels",
    "annotations": _TOOLS,
}
_OF_THE_SERVER = "the API server keeps it"
_STATUS = "it tells what was decided, and not what is wanted"
_DEAD = (
    "{} is of KEDA 1, which nothing runs any more: import what KEDA 2 has of it, of keda.sh/v1alpha1"
)
_JOB = (
    "a ScaledJob starts Jobs, which have no replicas to set: leave it to KEDA, or scale a "
    "Deployment that works the queue"
)
_NO_VERSION = "there is no {}: right are {}"


class State(Enum):
    """What became of a manifest."""

    IMPORTED = "imported"
    IN_PART = "in part"
    """Its target has entries in `undecided`."""
    REFUSED = "refused"
    USED = "used"
    """It says how other manifests are to be read."""
    OTHER = "other"
    """It is no autoscaler."""


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    namespace: str | None = None
    """That of manifests that name none."""
    prometheus: str | None = None
    """The URL of the default server."""
    shadow: bool = False
    partial: bool = False
    """Whether a target is written without triggers that Prometheus cannot answer."""
    find_series: FindSeries | None = None


@dataclass
class Outcome_:
    """Placeholder."""


@dataclass
class Imported:
    """One manifest, and what became of it."""

    manifest: Manifest
    state: State
    draft: TargetDraft = field(default_factory=lambda: TargetDraft({}))
    why: str = ""
    """Why it was refused, or what it was used for."""

    @property
    def entries(self) -> list[Entry]:
        """What became of its keys."""
        return self.manifest.fields.entries()

    @property
    def target(self) -> dict[str, object]:
        """Its target as it is written; empty for none."""
        return self.draft.target

    def refuse(self, why: str) -> None:
        """Leave it out of the configuration."""
        self.state, self.why = State.REFUSED, why
        self.draft = TargetDraft({}, skeleton=self.draft.skeleton)

    def leave(self, location: Sequence[str | int], why: str) -> None:
        """Have a key of it undecided."""
        self.manifest.fields.refused(*location, why=why)
        self.settle()

    def settle(self) -> None:
        """Write in the target what is undecided, as the keys of the manifest say."""
        left = [one for one in self.entries if one.outcome is Outcome.REFUSED]
        self.state = State.IN_PART if left else State.IMPORTED
        target = {key: one for key, one in self.draft.target.items() if key != "undecided"}
        if left:
            target["undecided"] = [_undecided(one) for one in left]
        order = [key for key in _TARGET_KEYS if key in target]
        self.draft.target = {key: target[key] for key in (*order, *target)}


def _undecided(entry: Entry) -> dict[str, object]:
    shown = f"{entry.shown}: " if entry.shown else ""
    kind = {"type": entry.kind} if entry.kind else {}
    return {"field": path_of(entry.location) or "all", **kind, "why": f"{shown}{entry.why}"}


@dataclass
class Conversion:
    """What the manifests of an import become together."""

    shared: Shared
    imported: list[Imported]
    rules: AdapterRules
    url_is_known: bool

    @property
    def written(self) -> list[Imported]:
        """Those that have a target."""
        return [one for one in self.imported if one.target]


def convert(
    manifests: Sequence[Manifest], options: Options, rules: Sequence[Manifest] = ()
) -> Conversion:
    """Convert the autoscalers among manifests, in their order.

    ``rules`` are documents that have rules of prometheus-adapter, beside those that are found among
    the manifests.
    """
    shared, authentications = Shared(), Authentications()
    found = {id(one): one_of for one in (*rules, *manifests) if (one_of := _rules(one)) is not None}
    adapter = AdapterRules.merged(list(found.values()))
    url = options.prometheus or adapter.prometheus_url
    if url:
        shared.server({"url": url})
    for manifest in manifests:
        if manifest.role is Role.AUTHENTICATION and manifest.group != "keda.k8s.io":
            authentications.add(manifest.fields)
    resolve = _resolver(adapter, options.find_series)
    imported = []
    for manifest in (*rules, *manifests):
        if id(manifest) in found:
            imported.append(Imported(manifest, State.USED, why="rules of prometheus-adapter"))
        else:
            imported.append(_imported(manifest, options, shared, authentications, resolve))
    authentications.account()
    for one in imported:
        _account_for_the_rest(one)
    known = bool(shared.servers)
    if not known:
        shared.server({"url": UNKNOWN_URL})
    return Conversion(shared, imported, adapter, known)


def _rules(manifest: Manifest) -> AdapterRules | None:
    return rules_in(manifest.fields) if manifest.role is Role.OTHER else None


def _resolver(rules: AdapterRules, find_series: FindSeries | None) -> autoscalers.Resolve:
    def resolve(kind: str, name: str, **more: object) -> Resolved | Unresolved:
        return rules.resolve(kind, name, find_series=find_series, **more)

    return resolve
