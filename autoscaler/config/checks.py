"""The findings of the rules between fields, in each file and over all files."""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from pydantic import BaseModel

from autoscaler.config.conversion import DEFAULTS
from autoscaler.config.documents import Location, child, entries, path_of
from autoscaler.config.error_messages import Names
from autoscaler.config.models import InnerModel, inner_models
from autoscaler.config.problems import Finding, below
from autoscaler.config.reading import Source
from autoscaler.config.rule_forms import Context, Rule, clusters_named
from autoscaler.config.settings import DEFAULT_SERVER, IncludedFile, MainFile
from autoscaler.config.settings_rules import SETTINGS_RULES
from autoscaler.config.spec_model import ScalingModel
from autoscaler.config.target_rules import TARGET_RULES, group_of

_RULES = {**SETTINGS_RULES, **TARGET_RULES}


def rules_of(model: type[BaseModel]) -> Sequence[Rule]:
    """Return the rules of a model and of its base classes, in order."""
    return tuple(rule for of, rules in _RULES.items() if issubclass(model, of) for rule in rules)


def check_files(
    sources: Sequence[Source], pod_namespace: str | None, *, complete: bool
) -> Iterator[tuple[Source, Finding]]:
    """Check all files, the main one first; names of queries are looked up only if ``complete``."""
    context = _context(sources, pod_namespace) if complete else Context(pod_namespace)
    for number, source in enumerate(sources):
        model = IncludedFile if number else MainFile
        for finding in check_value(source.value, model, context):
            yield source, finding
    yield from _repeated_queries(sources)
    yield from _repeated_targets(sources)


def _context(sources: Sequence[Source], pod_namespace: str | None) -> Context:
    queries = Names(
        (name, child(source.value, "queries", name))
        for source in sources
        for name in _names(source, "queries")
    )
    main = sources[0]
    own = child(main.value, "prometheus", "servers")
    resources = resources_by_server(
        _names(main, "resourceQueries"),
        {
            str(server): _names(main, "prometheus", "servers", server, "resourceQueries")
            for server in (own if isinstance(own, Mapping) else ())
        },
    )
    servers = {
        name: child(cluster, "prometheus")
        for _, cluster in entries(main.value, "clusters")
        if isinstance(name := child(cluster, "name"), str)
    }
    clusters = Names(
        (name, server if isinstance(server, str) else None) for name, server in servers.items()
    )
    return Context(pod_namespace, queries, resources, clusters)


def resources_by_server(
    everywhere: Iterable[str], of_servers: Mapping[str, Iterable[str]]
) -> Names[AbstractSet[str]]:
    """Return by server the resources with a query, for all servers or for that one."""
    every = frozenset(everywhere) | DEFAULTS.keys()
    found = {name: every | frozenset(own) for name, own in of_servers.items()}
    return Names({DEFAULT_SERVER: every, **found})


def check_value(
    value: object, of: type[BaseModel], context: Context, location: Location = ()
) -> Iterator[Finding]:
    """Check a value of the document and the values within, except those reported as a whole."""
    if not isinstance(value, Mapping):
        return
    rules, inner = _rules_and_inner_models(of)
    if issubclass(of, ScalingModel):
        context = context._replace(target=value)
    reported = set()
    for rule in rules:
        shown = rule.broken(value, context)
        if shown:
            reported.add(rule.at)
            sentence = rule.sentence.format(*(shown if isinstance(shown, tuple) else (shown,)))
            at = (rule.at,) if rule.at else ()
            missing = tuple(tuple(path.split(".")) for path in rule.fixed_by)
            yield below(location, Finding(at, sentence, show_value=rule.shown, missing=missing))
    for field in inner:
        if field.key not in reported:
            for place, part in field.values(value):
                yield from check_value(part, field.model, context, (*location, *place))


@functools.cache
def _rules_and_inner_models(
    model: type[BaseModel],
) -> tuple[Sequence[Rule], tuple[InnerModel, ...]]:
    inner = tuple(
        field for field in inner_models(model) if any(_rules_and_inner_models(field.model))
    )
    return rules_of(model), inner


def _names(source: Source, *keys: str) -> frozenset[str]:
    mapping = child(source.value, *keys)
    return frozenset(map(str, mapping)) if isinstance(mapping, Mapping) else frozenset()


def _repeated_queries(sources: Sequence[Source]) -> Iterator[tuple[Source, Finding]]:
    first_of: dict[str, Source] = {}
    for source in sources:
        for name in sorted(_names(source, "queries")):
            first = first_of.setdefault(name, source)
            if first is not source:
                place = first.name_of(("queries", name))
                message = f"is in {place} too, and all files share their queries; keep one, or "
                yield source, Finding(("queries", name), f"{message}rename one", show_value=False)


def _repeated_targets(sources: Sequence[Source]) -> Iterator[tuple[Source, Finding]]:
    seen: dict[tuple[str, ...], tuple[Source, Location]] = {}
    named = (child(cluster, "name") for _, cluster in entries(sources[0].value, "clusters"))
    clusters = [name for name in named if isinstance(name, str)]
    for source in sources:
        for index, target in entries(source.value, "targets"):
            place: Location = ("targets", index)
            for workload in _workloads(target, clusters):
                first, other = seen.setdefault(workload, (source, place))
                if first is source and other == place:
                    continue
                cluster, _, namespace, kind, name = workload
                where = f"{namespace} of {cluster}" if cluster else namespace
                shown = path_of(other)
                shown += "" if first is source else f" of {first.name_of(other)}"
                message = f"scales {kind} {name} in {where}, as {shown} does: a workload has one "
                message += "target; put the metrics of both into one"
                yield source, Finding(place, message, show_value=False)
                break


def _workloads(target: object, clusters: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the cluster, group, namespace, kind and name of a target's workloads, if all are texts.

    The cluster is empty where there are no ``clusters``.
    """
    ref = child(target, "scaleTargetRef")
    if not isinstance(ref, Mapping) or not isinstance(target, Mapping):
        return
    parts = (child(target, "namespace"), ref.get("kind"), ref.get("name"))
    names = [part for part in parts if isinstance(part, str)]
    if len(names) == len(parts):
        for cluster in dict.fromkeys(clusters_named(target) or clusters or [""]):
            yield (cluster, group_of(ref) or "", *names)
