"""Converts manifests to the targets of one configuration, with the outcome of each manifest."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import get_args

from autoscaler.config.documents import child, describe, entries, path_of
from autoscaler.config.reading import HPA, SCALED_JOB, SCALED_OBJECT
from autoscaler.migrate.adapter_queries import (
    DescribedObject,
    FindSeries,
    MetricType,
    ResolvedQuery,
    UnresolvedQuery,
    resolve,
    resource_queries,
)
from autoscaler.migrate.adapter_rules import merged, rules_in
from autoscaler.migrate.drafts import Comment, Query, SharedSettings, TargetDraft
from autoscaler.migrate.fields import KeyEntry, KeyOutcome, not_filled_in, placeholder, placeholders
from autoscaler.migrate.horizontal_pod_autoscalers import VERSIONS
from autoscaler.migrate.horizontal_pod_autoscalers import draft_of as horizontal_pod_autoscaler
from autoscaler.migrate.keda.authentications import Authentications
from autoscaler.migrate.keda.scaled_objects import draft_of as scaled_object
from autoscaler.migrate.manifests import A_TEMPLATE, KEDA_1, Manifest, ManifestRole
from autoscaler.migrate.options import ImportOptions
from autoscaler.migrate.other_adapters import defined_by, served_by

NO_NAMESPACE = "default"
"""The namespace of manifests without one, as in kubectl by default."""

UNKNOWN_URL = "http://prometheus:9090"
"""The URL if targets need a Prometheus that no source names."""

SERVED = frozenset(get_args(MetricType))
_TARGET_KEYS = ("namespace", "server", "scaleTargetRef", "undecided", "mode")
_TOOLS = "it belongs to the tools that put it there"
_METADATA = {
    "name": "a target is called by its workload",
    "labels": "a target has no labels",
    "annotations": _TOOLS,
}
_OF_THE_SERVER = "the API server keeps it"
_STATUS = "it tells what was decided, and not what is wanted"
_DEAD = (
    "{} is of KEDA 1, which is no longer supported: import the KEDA 2 manifest that replaces "
    "it, of keda.sh/v1alpha1"
)
_KEPT_IN_FILES = "its values are kept in files, and are not read"
_NO_URL = (
    f"no source names {{}}, so the URL is {UNKNOWN_URL}: write your URL, or import "
    "with --prometheus URL"
)
_NOT_ASKED = "no target asks this server: each names its own in `servers`"
_MOST_NAMED = 3
_OF_KEDA = "KEDA makes it of the ScaledObject {}: import that in place of it"
_JOB = (
    "a ScaledJob starts Jobs, which have no replicas to set: leave it to KEDA, or scale a "
    "Deployment that works the queue"
)


class SeriesError(Exception):
    """`find_series` could not ask Prometheus for series; the text has the reason."""


class ImportState(Enum):
    """The outcome of a manifest."""

    IMPORTED = "imported"
    IN_PART = "in part"
    """Its target has entries in `undecided`."""
    REFUSED = "refused"
    USED = "used"
    """It determines how other manifests are read."""
    OTHER = "other"
    """It is not an autoscaler."""


@dataclass
class ImportedManifest:
    """One manifest, and its outcome."""

    manifest: Manifest
    state: ImportState
    draft: TargetDraft = field(default_factory=lambda: TargetDraft({}))
    why: str = ""
    """Why it was refused, or its use."""

    @property
    def entries(self) -> list[KeyEntry]:
        """The outcomes of its keys; a manifest that is left out has one entry for all of it."""
        if self.state is ImportState.REFUSED:
            more = (entry for entry in self.manifest.fields.entries() if entry.location)
            lost = [entry for entry in more if entry.outcome is KeyOutcome.REFUSED]
            return [KeyEntry((), KeyOutcome.REFUSED, self.why), *lost]
        if self.state is ImportState.OTHER:
            return [KeyEntry((), KeyOutcome.IGNORED, "not an autoscaler")]
        return self.manifest.fields.entries()

    @property
    def target(self) -> dict[str, object]:
        """Its target as it is written; empty for none."""
        return self.draft.target

    def refuse(self, why: str) -> None:
        """Leave it out of the configuration."""
        self.state, self.why = ImportState.REFUSED, why
        self.draft = TargetDraft({})

    def leave(self, location: Sequence[str | int], why: str) -> None:
        """Make a key of it undecided."""
        self.manifest.fields.refused(*location, why=why)
        self.settle()

    def settle(self) -> None:
        """Write the undecided keys of the manifest in the target."""
        left = [entry for entry in self.entries if entry.outcome is KeyOutcome.REFUSED]
        self.state = ImportState.IN_PART if left else ImportState.IMPORTED
        target = {key: value for key, value in self.draft.target.items() if key != "undecided"}
        if left:
            target["undecided"] = [_undecided(entry) for entry in left]
        order = [key for key in _TARGET_KEYS if key in target]
        self.draft.target = {key: target[key] for key in (*order, *target)}


def _undecided(entry: KeyEntry) -> dict[str, object]:
    kind = {"type": entry.kind} if entry.kind else {}
    return {"field": path_of(entry.location) or "all", **kind, "why": entry.sentence}


@dataclass
class Conversion:
    """The common result of the manifests of an import."""

    shared: SharedSettings = field(default_factory=SharedSettings)
    imported: list[ImportedManifest] = field(default_factory=list)
    resources: dict[str, Query] = field(default_factory=dict)
    """`resourceQueries`, as the rules of prometheus-adapter have them."""
    notes: list[str] = field(default_factory=list)
    """Comments on the configuration as a whole."""
    has_rules: bool = False
    """Whether any document has rules of prometheus-adapter."""

    @property
    def lacks_rules(self) -> bool:
        """Whether metrics need rules of prometheus-adapter, and there are no rules."""
        lost = (
            entry for manifest in self.written for entry in manifest.entries if entry.kind in SERVED
        )
        return not self.has_rules and any(entry.outcome is KeyOutcome.REFUSED for entry in lost)

    @property
    def written(self) -> list[ImportedManifest]:
        """The manifests with a target."""
        return [manifest for manifest in self.imported if manifest.target]


def convert(
    manifests: Sequence[Manifest],
    options: ImportOptions,
    *,
    find_series: FindSeries | None = None,
) -> Conversion:
    """Convert the autoscalers among manifests, in their order."""
    result = Conversion()
    importer = _Importer(manifests, options, result.shared, find_series)
    url = options.prometheus or importer.rules.prometheus_url
    if url:
        result.shared.servers[""] = {"url": url}
    result.imported = importer.read_all()
    written = result.written
    if not url:
        lacking = result.shared.choose_default([manifest.target for manifest in written])
        if lacking is not None:
            sources = [written[index].manifest for index in lacking]
            result.notes += _unknown_server(result.shared, sources)
            for manifest in written:
                manifest.settle()
    result.notes += filter(None, [importer.not_asked])
    result.resources, problems = resource_queries(importer.rules)
    result.notes += problems
    result.has_rules = bool(importer.documents_of_rules)
    return result


def _unknown_server(shared: SharedSettings, lacking: Sequence[Manifest]) -> list[str]:
    """Add a default server whose URL is unknown; return what to do for these sources."""
    names = [f"{manifest.kind} {manifest.name}" for manifest in lacking[:_MOST_NAMED]]
    more = [f"{len(lacking) - _MOST_NAMED} more"] if len(lacking) > _MOST_NAMED else []
    what = f"the Prometheus of {', '.join((*names, *more))}" if shared.servers else "a Prometheus"
    notes = [_NO_URL.format(what)] if lacking or not shared.servers else []
    shared.server_comments[""] = notes or [_NOT_ASKED]
    shared.servers[""] = {"url": UNKNOWN_URL}
    return notes


class _Importer:
    def __init__(
        self,
        manifests: Sequence[Manifest],
        options: ImportOptions,
        shared: SharedSettings,
        find_series: FindSeries | None,
    ) -> None:
        self._options = options
        self._find_series = find_series
        self._shared = shared
        self._manifests = manifests
        self._here = options.namespace or NO_NAMESPACE
        self.documents_of_rules = {
            id(manifest): held
            for manifest in manifests
            if manifest.role is ManifestRole.OTHER
            and (held := rules_in(manifest.fields)) is not None
        }
        """Rules of prometheus-adapter, by the manifest in which they are."""
        self.rules = merged(self.documents_of_rules.values())
        self.not_asked = ""
        """Why Prometheus is not asked any more."""
        self._authentications = Authentications()
        for manifest in manifests:
            if manifest.role is ManifestRole.AUTHENTICATION and manifest.group != KEDA_1:
                self._authentications.add(manifest.fields, self._here)
        self._tools = {
            manifest.name: f"{tool}, by {manifest.kind} {manifest.name},"
            for manifest in manifests
            if (tool := defined_by(manifest.group, manifest.kind))
        }
        """Who serves a metric, by its name, as other documents say."""
        self._scaled_objects = {
            (manifest.namespace or self._here, manifest.name)
            for manifest in manifests
            if manifest.kind == SCALED_OBJECT and manifest.group != KEDA_1
        }

    def read_all(self) -> list[ImportedManifest]:
        """Convert all manifests, and account for each of their keys."""
        imported = [self._read(manifest) for manifest in self._manifests]
        self._authentications.account()
        for manifest in imported:
            _account_for_the_rest(manifest)
        return imported

    def _read(self, manifest: Manifest) -> ImportedManifest:
        """Convert a manifest, if it is an autoscaler."""
        match manifest.role:
            case ManifestRole.AUTHENTICATION if manifest.group != KEDA_1:
                return ImportedManifest(manifest, ImportState.USED, why="how triggers sign in")
            case ManifestRole.VALUES:
                manifest.fields.ignored(why=_KEPT_IN_FILES)
                return ImportedManifest(manifest, ImportState.USED, why=_KEPT_IN_FILES)
            case ManifestRole.OTHER:
                return self._read_other(manifest)
        imported = ImportedManifest(manifest, ImportState.IMPORTED)
        namespace = manifest.namespace or self._here
        owner = _scaled_object_of(manifest)
        if owner and (namespace, owner) in self._scaled_objects:
            why = f"KEDA creates it from the ScaledObject {owner}, which is imported instead"
            manifest.fields.ignored(why=why)
            return ImportedManifest(manifest, ImportState.USED, why=why)
        refusal = _OF_KEDA.format(describe(owner)) if owner else _refusal(manifest)
        if refusal:
            imported.refuse(refusal)
            return imported
        imported.draft = self._draft(manifest, namespace)
        if imported.draft.refusal:
            imported.refuse(imported.draft.refusal)
        else:
            self._complete(imported, namespace)
        return imported

    def _read_other(self, manifest: Manifest) -> ImportedManifest:
        rules = self.documents_of_rules.get(id(manifest))
        if rules is None:
            why = (
                (manifest.kind or "no apiVersion and kind")
                if manifest.fields.value
                else "no mapping"
            )
            return ImportedManifest(manifest, ImportState.OTHER, why=why)
        why = "; ".join(("rules of prometheus-adapter", *rules.problems))
        return ImportedManifest(manifest, ImportState.USED, why=why)

    def _draft(self, manifest: Manifest, namespace: str) -> TargetDraft:
        if manifest.kind != HPA:
            return scaled_object(manifest.fields, self._authentications, self._shared, namespace)

        def resolve_here(
            kind: MetricType, name: str, described: DescribedObject | None, selector: object
        ) -> ResolvedQuery | UnresolvedQuery:
            if name in self._tools:
                return UnresolvedQuery(served_by(self._tools[name]))
            find = partial(
                resolve,
                *(self.rules, kind, name),
                namespace=namespace,
                described=described,
                selector=selector,
            )
            try:
                return find(find_series=None if self.not_asked else self._find_series)
            except SeriesError as error:
                self.not_asked = f"{error}; the series of a rule are guessed from its names"
                return find()

        return horizontal_pod_autoscaler(manifest.fields, self._shared, resolve_here)

    def _complete(self, imported: ImportedManifest, namespace: str) -> None:
        manifest, draft = imported.manifest, imported.draft
        draft.target = {"namespace": namespace, **draft.target}
        if self._options.shadow:
            draft.target["mode"] = "shadow"
        if found := placeholder(namespace):
            manifest.fields.refused("metadata", "namespace", why=not_filled_in(found))
        elif manifest.namespace:
            manifest.fields.get("metadata", "namespace")
        elif self._options.namespace is None:
            why = f"the manifest lacks it, so it is {NO_NAMESPACE}; import with -n for another"
            draft.comments.append(Comment(("namespace",), why))


def _scaled_object_of(manifest: Manifest) -> str:
    """Return the name of the ScaledObject of an HPA by KEDA; empty without one."""
    metadata = manifest.fields.peek("metadata")
    if manifest.kind != HPA:
        return ""
    owners = [
        child(owner, "name")
        for _, owner in entries(metadata, "ownerReferences")
        if child(owner, "kind") == SCALED_OBJECT
    ]
    return str(
        next(iter(owners), None) or child(metadata, "labels", "scaledobject.keda.sh/name") or ""
    )


def _refusal(manifest: Manifest) -> str:
    """Return why an autoscaler is refused as a whole."""
    version = str(manifest.fields.peek("apiVersion") or "")
    if manifest.group == KEDA_1:
        return _DEAD.format(describe(version))
    if manifest.kind == SCALED_JOB:
        return _JOB
    versions = VERSIONS if manifest.kind == HPA else ("keda.sh/v1alpha1",)
    if version and version not in versions:
        return f"there is no {manifest.kind} of {describe(version)}: right is {versions[-1]}"
    if any(found.startswith("{{") for _, found in placeholders(manifest.fields.value)):
        return A_TEMPLATE
    return ""


def _account_for_the_rest(imported: ImportedManifest) -> None:
    """Account for the keys that all kinds have, and refuse unknown ones."""
    fields = imported.manifest.fields
    if imported.state in {ImportState.OTHER, ImportState.REFUSED} or (
        imported.state is ImportState.USED
        and imported.manifest.role in {ManifestRole.VALUES, ManifestRole.AUTOSCALER}
    ):
        return  # One sentence is for all of it.
    for key in ("apiVersion", "kind"):
        fields.get(key)
    said = {
        entry.location[:length]
        for entry in fields.entries()
        for length in range(len(entry.location) + 1)
    }
    metadata = fields.within("metadata")
    annotations = metadata.within("annotations")
    for key in annotations.value:
        of_keda = key.partition("/")[0].endswith("keda.sh")
        if not of_keda and (*annotations.location, key) not in said:
            annotations.ignored(key, why=_TOOLS)
    for key in metadata.value:
        # Only unknown annotations are left.
        if (*metadata.location, key) not in said and not (
            key == "annotations" and annotations.value
        ):
            metadata.ignored(key, why=_METADATA.get(key, _OF_THE_SERVER))
    if fields.peek("status") is not None:
        fields.ignored("status", why=_STATUS)
    fields.refuse_the_rest()
    if imported.target:
        imported.settle()
