"""Reads a configuration, or refuses it with everything that is wrong with it."""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from autoscaler.config.conversion import config_of
from autoscaler.config.document_rules import document_findings, unusable_files
from autoscaler.config.inclusion import included, patterns_of
from autoscaler.config.locating import located, one_per_place, problems_of
from autoscaler.config.pod_namespace import pod_namespace
from autoscaler.config.problems import ConfigError, Finding, Problem
from autoscaler.config.sentences import findings_of
from autoscaler.config.service_rules import service_findings
from autoscaler.config.settings import Config, Sources
from autoscaler.config.settings_model import DocumentModel, IncludedModel
from autoscaler.config.sources import Reading, Source
from autoscaler.config.spec_model import HorizontalPodAutoscalerSpec
from autoscaler.config.spec_rules import spec_findings
from autoscaler.config.target_rules import target_findings

_Model = TypeVar("_Model", bound=BaseModel)
_Found = list[tuple[Source, Finding]]


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
def load(path: Path, namespace: Callable[[], str | None] = pod_namespace) -> Config:
    """Read and check a configuration file and the files that it includes.

    ``namespace`` tells that of the pod that we run in.  Raises ConfigError with every problem of
    every file at once, in their order.
    """
    reading = Reading()
    main = reading.source(path, "a configuration has at least `prometheus` and `targets`")
    if main is None:
        raise ConfigError(reading.problems, Sources(reading.digests))
    patterns = patterns_of(main.value, path.parent)
    inclusion = included(patterns.values(), path)
    files = list(inclusion.files)
    read = [reading.source(file, "an included file has `targets` or `queries`") for file in files]
    others = [source for source in read if source is not None]
    unusable = tuple(unusable_files(main.value, path.absolute().parent))
    sources = Sources(
        reading.digests
        | {pattern.absolute(): None for pattern in inclusion.faults}
        | dict.fromkeys(unusable),
        tuple(pattern.absolute() for pattern in patterns.values()),
        unusable,
    )
    own_namespace = namespace()
    found: _Found = [
        (main, Finding(("include", index), inclusion.faults[pattern]))
        for index, pattern in patterns.items()
        if pattern in inclusion.faults
    ]
    document = _document(main, own_namespace, found)
    models = [_included(source, found) for source in others]
    complete = len(others) == len(files) and not inclusion.faults
    found += target_findings([main, *others], complete=complete)
    parts = [model for model in models if model is not None]
    if document is None or found or reading.problems:
        raise ConfigError(_in_order([path, *files], reading.problems, found), sources)
    return config_of(document, parts, path, sources, own_namespace)


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


def _document(main: Source, namespace: str | None, found: _Found) -> DocumentModel | None:
    form = "a configuration is a mapping with `prometheus`, `targets` and so on"
    folder = main.path.absolute().parent
    document = _modelled(main, DocumentModel, form, found)
    if isinstance(main.value, dict):
        found += ((main, finding) for finding in document_findings(main.value, folder))
        found += ((main, finding) for finding in service_findings(main.value, folder, namespace))
    return document


def _included(source: Source, found: _Found) -> IncludedModel | None:
    known = {field.alias or name for name, field in IncludedModel.model_fields.items()}
    for name, field in DocumentModel.model_fields.items():
        key = field.alias or name
        if key not in known and isinstance(source.value, dict) and key in source.value:
            message = "belongs into the main file: an included one has `queries` and `targets`"
            found.append((source, Finding((key,), message, show_value=False)))
    form = "an included file is a mapping with `queries` and `targets`"
    return _modelled(source, IncludedModel, form, found)


def _modelled(source: Source, model: type[_Model], form: str, found: _Found) -> _Model | None:
    """Check the shape of a file's document; what is wrong is added to ``found``."""
    if not isinstance(source.value, dict):
        found.append((source, Finding((), form)))
        return None
    try:
        return model.model_validate(source.value)
    except ValidationError as error:
        found += ((source, finding) for finding in findings_of(error, model))
    return None


def _in_order(files: list[Path], problems: list[Problem], found: _Found) -> list[Problem]:
    """Look up the findings, and put all problems in the order of the files and their lines."""
    by_source: dict[Path, tuple[Source, list[Finding]]] = {}
    for source, finding in found:
        by_source.setdefault(source.path, (source, []))[1].append(finding)
    for source, findings in by_source.values():
        problems = problems + problems_of(one_per_place(findings), source)
    order = {str(file): number for number, file in enumerate(files)}
    return sorted(problems, key=lambda problem: (order[problem.file], problem.line or 0))
