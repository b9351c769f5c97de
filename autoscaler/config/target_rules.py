"""The rules of queries and targets, over all files of a configuration."""

from collections.abc import Iterator, Mapping, Sequence

from autoscaler.config.document import child
from autoscaler.config.problems import Finding, Location, path_of
from autoscaler.config.resource_queries import DEFAULTS
from autoscaler.config.sources import Source
from autoscaler.config.spec_rules import entries, query_findings, spec_findings

_Seen = dict[tuple[str, ...], tuple[Source, Location]]


def target_findings(
    sources: Sequence[Source], *, complete: bool
) -> Iterator[tuple[Source, Finding]]:
    """Check all files, the main one first.

    Unless they are ``complete``, nothing is said about queries that a missing one may hold.
    """
    names: dict[str, Source] = {}
    for source in sources:
        yield from ((source, finding) for finding in _repeated(source, names))
    resources = _keys(sources[0], "resourceQueries") | DEFAULTS.keys()
    seen: _Seen = {}
    for source in sources:
        for index, target in entries(source.value, "targets"):
            location: Location = ("targets", index)
            for finding in spec_findings(target, location):
                yield source, finding
            if complete:
                for finding in query_findings(target, location, names, resources):
                    yield source, finding
            for finding in _duplicate(target, source, location, seen):
                yield source, finding


def _keys(source: Source, key: str) -> set[str]:
    mapping = child(source.value, key)
    return set(mapping) if isinstance(mapping, Mapping) else set()


def _repeated(source: Source, names: dict[str, Source]) -> Iterator[Finding]:
    for name in sorted(_keys(source, "queries")):
        first = names.setdefault(name, source)
        if first is not source:
            place = first.name_of(("queries", name))
            yield Finding(
                ("queries", name),
                f"stands in {place} too: all files share their queries; keep one, or rename one",
                show_value=False,
            )


def _duplicate(
    target: object, source: Source, location: Location, seen: _Seen
) -> Iterator[Finding]:
    version = child(target, "scaleTargetRef", "apiVersion")
    group = version.rpartition("/")[0] if isinstance(version, str) else ""
    parts = (
        child(target, "namespace"),
        child(target, "scaleTargetRef", "kind"),
        child(target, "scaleTargetRef", "name"),
    )
    names = [part for part in parts if isinstance(part, str)]
    if len(names) < len(parts):
        return
    first, place = seen.setdefault((group, *names), (source, location))
    if first is not source or place != location:
        namespace, kind, name = names
        other = path_of(place) if first is source else f"{path_of(place)} of {first.name_of(place)}"
        yield Finding(
            location,
            f"scales {kind} {name} in {namespace}, as {other} does: a workload has one "
            "target; put the metrics of both into one",
            show_value=False,
        )
