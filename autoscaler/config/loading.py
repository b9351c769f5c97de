"""Reads a configuration, or refuses it with everything that is wrong with it."""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from autoscaler.config.conversion import config_of
from autoscaler.config.document_rules import document_findings, unusable_files
from autoscaler.config.inclusion import included, patterns_of
from autoscaler.config.locating import located, one_per_place, problems_of
from autoscaler.config.pod_namespace import pod_namespace
from autoscaler.config.problems import (
    MOST_LOOKED_AT,
    ConfigError,
    Finding,
    Location,
    Problem,
    chosen,
)
from autoscaler.config.sentences import findings_of
from autoscaler.config.service_rules import service_findings
from autoscaler.config.settings import Config, Sources
from autoscaler.config.settings_model import DocumentModel, IncludedModel
from autoscaler.config.sources import Reading, Source
from autoscaler.config.spec_model import HorizontalPodAutoscalerSpec, TargetModel
from autoscaler.config.spec_rules import spec_findings
from autoscaler.config.target_rules import target_findings

_Model = TypeVar("_Model", bound=BaseModel)
_KEYS = {field.alias or name for name, field in DocumentModel.model_fields.items()}


class _Found:
    """Gathers findings, as many as are looked for."""

    def __init__(self, before: int) -> None:
        self.all: list[tuple[Source, Finding]] = []
        self._before = before

    @property
    def full(self) -> bool:
        """Whether no more are looked for."""
        return self._room <= 0

    def add(self, findings: Iterable[tuple[Source, Finding]]) -> None:
        """Take in as many as there is room for; the others are not even made."""
        self.all += islice(findings, max(0, self._room))

    def add_of(self, source: Source, findings: Iterable[Finding]) -> None:
        """Take in those of one file."""
        self.add((source, finding) for finding in findings)

    @property
    def _room(self) -> int:
        return MOST_LOOKED_AT - self._before - len(self.all)


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
    reading = Reading(_KEYS)
    main = reading.source(path, "a configuration has at least `prometheus` and `targets`")
    if main is None:
        problems = chosen(reading.problems, str(path), more=reading.full)
        raise ConfigError(problems, Sources(reading.digests))
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
    found = _Found(len(reading.problems))
    found.add_of(
        main,
        (
            Finding(("include", index), inclusion.faults[pattern])
            for index, pattern in patterns.items()
            if pattern in inclusion.faults
        ),
    )
    document = _document(main, own_namespace, found)
    models = [_included(source, found) for source in others]
    complete = len(others) == len(files) and not inclusion.faults
    found.add(target_findings([main, *others], complete=complete))
    parts = [model for model in models if model is not None]
    if document is None or found.all or reading.problems:
        problems = _in_order([path, *files], reading.problems, found.all)
        raise ConfigError(chosen(problems, str(path), more=found.full or reading.full), sources)
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
        found.add_of(main, document_findings(main.value, folder))
        found.add_of(main, service_findings(main.value, folder, namespace))
    return document


def _included(source: Source, found: _Found) -> IncludedModel | None:
    known = {field.alias or name for name, field in IncludedModel.model_fields.items()}
    message = "belongs into the main file: an included one has `queries` and `targets`"
    others = [
        Finding((key,), message, show_value=False)
        for key in sorted(_KEYS - known)
        if isinstance(source.value, dict) and key in source.value
    ]
    found.add_of(source, others)
    form = "an included file is a mapping with `queries` and `targets`"
    return _modelled(source, IncludedModel, form, found)


def _modelled(source: Source, model: type[_Model], form: str, found: _Found) -> _Model | None:
    """Check the shape of a file's document; what is wrong is added to ``found``."""
    if not isinstance(source.value, dict):
        found.add_of(source, [Finding((), form)])
        return None
    targets = source.value.get("targets")
    if not isinstance(targets, list):
        return _valid(source, source.value, model, (), found)
    # One by one: pydantic makes errors of all that is wrong before it tells one.
    rest = _valid(source, {**source.value, "targets": []}, model, (), found)
    models = []
    for index, target in enumerate(targets):
        if found.full:
            return None
        models.append(_valid(source, target, TargetModel, ("targets", index), found))
    return None if rest is None else rest.model_copy(update={"targets": tuple(models)})


def _valid(
    source: Source, value: object, model: type[_Model], location: Location, found: _Found
) -> _Model | None:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        findings = findings_of(error, model)
        found.add_of(
            source, (one._replace(location=(*location, *one.location)) for one in findings)
        )
    return None


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
