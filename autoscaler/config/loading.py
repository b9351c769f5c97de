"""Reads a configuration, or refuses it with everything that is wrong with it."""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from autoscaler.config.checking import (
    KEYS,
    Found,
    check_document,
    check_included,
    is_included_one,
)
from autoscaler.config.conversion import config_of
from autoscaler.config.document_rules import unusable_files
from autoscaler.config.error_messages import findings_of
from autoscaler.config.inclusion import Inclusion, included, patterns_of
from autoscaler.config.locating import located, one_per_place, problems_of
from autoscaler.config.pod_namespace import pod_namespace
from autoscaler.config.problems import ConfigError, Finding, Problem, chosen
from autoscaler.config.settings import Config, Sources
from autoscaler.config.sources import Reading, Source
from autoscaler.config.spec_model import HorizontalPodAutoscalerSpec
from autoscaler.config.spec_rules import spec_findings
from autoscaler.config.target_rules import target_findings


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Leave out collections while a document grows: nearly all of it is kept, and they cost most.

    They are for cycles only; the rest is freed as ever.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@_no_garbage_collection()
def load(
    path: Path,
    namespace: Callable[[], str | None] = pod_namespace,
    content: bytes | None = None,
) -> Config:
    """Read and check a configuration file and the files that it includes.

    ``namespace`` tells that of the pod that we run in; ``content`` is what the file holds, where it
    was read already and ``path`` only names it.  Raises ConfigError with every problem of
    every file at once, in their order.
    """
    reading = Reading(KEYS)
    main = reading.source(path, "a configuration has at least `prometheus` and `targets`", content)
    if main is None:
        problems = chosen(reading.problems, str(path), more=reading.full)
        raise ConfigError(problems, Sources(reading.digests))
    patterns = patterns_of(main.value, path.parent)
    inclusion = included(patterns.values(), path)
    files = list(inclusion.files)
    read = [reading.source(file, "an included file has `targets` or `queries`") for file in files]
    others = [source for source in read if source is not None]
    sources = _sources(reading, main, patterns, inclusion)
    own_namespace = namespace()
    found = Found(len(reading.problems))
    found.add_of(main, _include_findings(patterns, inclusion))
    document = check_document(main, own_namespace, found)
    models = [check_included(source, found) for source in others]
    complete = len(others) == len(files) and not (inclusion.faults or is_included_one(main))
    found.add(target_findings([main, *others], complete=complete))
    parts = [model for model in models if model is not None]
    if document is None or found.all or reading.problems:
        problems = _in_order([path, *files], reading.problems, found.all)
        more = found.full or reading.full
        raise ConfigError(chosen(problems, str(path), more=more), sources)
    return config_of(document, parts, path, sources, own_namespace)


def _sources(
    reading: Reading, main: Source, patterns: Mapping[int, Path], inclusion: Inclusion
) -> Sources:
    unusable = tuple(unusable_files(main.value, main.path.absolute().parent))
    return Sources(
        reading.digests
        | {pattern.absolute(): None for pattern in inclusion.faults}
        | dict.fromkeys(unusable),
        tuple(pattern.absolute() for pattern in patterns.values()),
        unusable,
    )


def _include_findings(patterns: Mapping[int, Path], inclusion: Inclusion) -> Iterator[Finding]:
    for index, pattern in patterns.items():
        if pattern in inclusion.faults:
            yield Finding(("include", index), inclusion.faults[pattern])


def parse_spec(spec: Mapping[str, object]) -> HorizontalPodAutoscalerSpec:
    """Check one HorizontalPodAutoscalerSpec (autoscaling/v2), given as plain data.

    Queries are not looked up.  Raises ConfigError with every problem at once.
    """
    findings: list[Finding] = []
    model = None
    try:
        model = HorizontalPodAutoscalerSpec.model_validate(spec)
    except ValidationError as error:
        findings.extend(findings_of(error, HorizontalPodAutoscalerSpec))
    findings = one_per_place([*findings, *spec_findings(spec)])
    if model is None or findings:
        raise ConfigError(located(findings, spec, "spec"))
    return model


def _in_order(
    files: list[Path], problems: list[Problem], found: list[tuple[Source, Finding]]
) -> list[Problem]:
    """Look up the findings, and put all problems in the order of the files and their lines."""
    by_source: dict[Path, tuple[Source, list[Finding]]] = {}
    for source, finding in found:
        by_source.setdefault(source.path, (source, []))[1].append(finding)
    for source, findings in by_source.values():
        problems = problems + problems_of(one_per_place(findings), source)
    order = {str(file): number for number, file in enumerate(files)}
    return sorted(problems, key=lambda problem: (order[problem.file], problem.line or 0))
