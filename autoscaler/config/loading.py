"""Reads a configuration, or refuses it with everything that is wrong with it."""

import gc
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from autoscaler.config.checks import check_files, check_value
from autoscaler.config.conversion import config_of
from autoscaler.config.document import Location, Value
from autoscaler.config.error_messages import findings_of
from autoscaler.config.manifests import advice_on, ready_of
from autoscaler.config.problems import (
    MOST_LOOKED_AT,
    ConfigError,
    Finding,
    Problem,
    below,
    chosen,
    located,
    one_per_place,
)
from autoscaler.config.rules import Context
from autoscaler.config.settings import INCLUDED_KEYS, KEYS, Config, IncludedFile, MainFile, Sources
from autoscaler.config.sources import (
    Inclusion,
    NamedFile,
    Reading,
    Source,
    included,
    patterns_of,
    unusable_files,
)
from autoscaler.config.spec_model import HorizontalPodAutoscalerSpec, TargetModel
from autoscaler.config.web_files import unusable_web_files

_Model = TypeVar("_Model", bound=BaseModel)
_FREE = "x-"
"""Begins the keys at the top of a file that are the user's own, such as for anchors."""

_MANIFESTS = {"kind", "spec"}
"""One of these has every manifest that is reported, and no target."""

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""Where Kubernetes writes it, beside the service account's token."""


ANYWHERE = "default"
"""Stands for the namespace of the pod where a file is only looked at, outside of one."""


def pod_namespace(file: Path = _NAMESPACE_FILE) -> str | None:
    """Return the namespace; None outside a pod, and where the file holds none."""
    try:
        text = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return text if re.fullmatch("[a-z0-9-]{1,63}", text) else None


def namespace_or_anywhere() -> str:
    """Return the namespace of the pod, outside of one `ANYWHERE`: to look at a file needs none."""
    return pod_namespace() or ANYWHERE


class _Found:
    """The findings so far, `MOST_LOOKED_AT` at most with the problems before them."""

    def __init__(self, before: int) -> None:
        self.all: list[tuple[Source, Finding]] = []
        self._before = before

    @property
    def full(self) -> bool:
        """Whether no more are looked for."""
        return self._room <= 0

    def add(self, found: Iterable[tuple[Source, Finding]]) -> None:
        """Add as many as there is room for; the others are not even made."""
        self.all += islice(found, max(0, self._room))

    def add_of(self, source: Source, found: Iterable[Finding]) -> None:
        """Add those of one file."""
        self.add((source, finding) for finding in found)

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
def load(
    path: Path, namespace: Callable[[], str | None] = pod_namespace, content: bytes | None = None
) -> Config:
    """Read and check a configuration file and the files that it includes.

    ``namespace`` returns that of the pod that we run in; ``content`` is what the file holds, where
    it was read already and ``path`` only names it.  Raises ConfigError with every problem of every
    file at once, in their order.
    """
    reading = Reading()
    main = reading.source(path, "a configuration has at least `prometheus` and `targets`", content)
    if main is None:
        problems = chosen(reading.problems, str(path), more=reading.full)
        raise ConfigError(problems, Sources(reading.digests))
    patterns = patterns_of(main.value, path.parent)
    inclusion = included(patterns.values(), path)
    read = [
        reading.source(file, "an included file has `targets` or `queries`")
        for file in inclusion.files
    ]
    others = [source for source in read if source is not None]
    folder = path.absolute().parent
    unusable = [*unusable_files(main.value, folder), *unusable_web_files(main.value, folder)]
    sources = _sources(reading, patterns, inclusion, unusable)
    own_namespace = namespace()
    complete = None not in read and not (inclusion.faults or _is_included_one(main))
    found = _Found(len(reading.problems))
    found.add_of(main, _include_findings(patterns, inclusion))
    document = _main_file(main, found)
    parts = [_included_file(source, found) for source in others]
    found.add(check_files([main, *others], own_namespace, complete=complete))
    found.add_of(main, (Finding(one.location, one.fault, show_value=False) for one in unusable))
    if document is None or found.all or reading.problems:
        problems = _in_order([path, *inclusion.files], reading.problems, found.all)
        more = found.full or reading.full
        raise ConfigError(chosen(problems, str(path), more=more), sources)
    valid = [part for part in parts if part is not None]
    return config_of(document, valid, path, sources, own_namespace)


def _sources(
    reading: Reading,
    patterns: Mapping[int, Path],
    inclusion: Inclusion,
    unusable: Sequence[NamedFile],
) -> Sources:
    missing = [
        *(pattern.absolute() for pattern in inclusion.faults),
        *(one.path for one in unusable),
    ]
    return Sources(
        reading.digests | dict.fromkeys(missing),
        tuple(pattern.absolute() for pattern in patterns.values()),
        tuple(one.path for one in unusable),
    )


def _include_findings(patterns: Mapping[int, Path], inclusion: Inclusion) -> Iterator[Finding]:
    for index, pattern in patterns.items():
        if pattern in inclusion.faults:
            yield Finding(("include", index), inclusion.faults[pattern])


def parse_spec(spec: Mapping[str, object]) -> HorizontalPodAutoscalerSpec:
    """Check one HorizontalPodAutoscalerSpec (autoscaling/v2), given as plain data.

    Queries are not looked up.  Raises ConfigError with every problem at once.
    """
    shape, model = _validated(HorizontalPodAutoscalerSpec, spec)
    broken = check_value(spec, HorizontalPodAutoscalerSpec, Context())
    found = one_per_place([*shape, *broken])
    if model is None or found:
        raise ConfigError(located(found, spec, "spec"))
    return model


def _in_order(
    files: list[Path], problems: list[Problem], found: list[tuple[Source, Finding]]
) -> list[Problem]:
    """Look up the findings, and put all problems in the order of the files and their lines."""
    by_source: dict[Path, tuple[Source, list[Finding]]] = {}
    for source, finding in found:
        by_source.setdefault(source.path, (source, []))[1].append(finding)
    for source, of_it in by_source.values():
        file = str(source.path)
        problems = problems + located(one_per_place(of_it), source.value, file, source.places)
    order = {str(file): number for number, file in enumerate(files)}
    return sorted(problems, key=lambda problem: (order[problem.file], problem.line or 0))


def _main_file(main: Source, found: _Found) -> MainFile | None:
    """Check the shapes in the main file."""
    if _is_included_one(main):
        message = "is missing: where the metrics come from; a file that another one includes is "
        message += "checked with that one"
        found.add_of(main, [Finding(("prometheus",), message, show_value=False)])
    form = "a configuration is a mapping with `prometheus`, `targets` and so on"
    return _document(main, MainFile, form, found)


def _is_included_one(main: Source) -> bool:
    """Return whether a main file has nothing but what included ones have."""
    return isinstance(main.value, dict) and bool(main.value) and main.value.keys() <= INCLUDED_KEYS


def _included_file(source: Source, found: _Found) -> IncludedFile | None:
    """Check the shapes in a file that the main one includes."""
    message = "belongs in the main file: an included one has `queries` and `targets`"
    value = source.value if isinstance(source.value, dict) else {}
    others = sorted((KEYS - INCLUDED_KEYS) & value.keys())
    found.add_of(source, [Finding((key,), message, show_value=False) for key in others])
    form = "an included file is a mapping with `queries` and `targets`"
    return _document(source, IncludedFile, form, found)


def _document(source: Source, model: type[_Model], form: str, found: _Found) -> _Model | None:
    """Check the shapes in a file; what is wrong is added to ``found``."""
    if not isinstance(source.value, dict):
        found.add_of(source, [Finding((), form)])
        return None
    value = {key: inner for key, inner in source.value.items() if not key.startswith(_FREE)}
    targets = value.get("targets")
    manifests = _manifests(targets, ("targets",))
    if manifests or not isinstance(targets, list):
        found.add_of(source, manifests)
        return _valid(source, value | ({"targets": []} if manifests else {}), model, (), found)
    # One by one: pydantic makes errors of all that is wrong before it returns one.
    rest = _valid(source, {**value, "targets": []}, model, (), found)
    models = []
    for index, target in enumerate(targets):
        if found.full:
            return None
        place = ("targets", index)
        manifests = _manifests(target, place)
        found.add_of(source, manifests)
        if not manifests:
            models.append(_valid(source, target, TargetModel, place, found))
    return None if rest is None else rest.model_copy(update={"targets": tuple(models)})


def _manifests(value: Value, location: Location) -> list[Finding]:
    """Find manifests where targets belong."""
    if not isinstance(value, dict) or _MANIFESTS.isdisjoint(value):
        return []
    return [
        Finding(
            *(one.location, one.message),
            show_value=False,
            details=one.details,
            ready=ready_of([one], entry=True) if one.kind else "",
        )
        for one in advice_on(value, location)
    ]


def _valid(
    source: Source, value: object, model: type[_Model], location: Location, found: _Found
) -> _Model | None:
    shape, result = _validated(model, value, source.path.absolute().parent)
    found.add_of(source, (below(location, finding) for finding in shape))
    return result


def _validated(
    model: type[_Model], value: object, folder: Path = Path()
) -> tuple[Iterable[Finding], _Model | None]:
    """Check a shape; ``folder`` is where relative file names begin."""
    try:
        return (), model.model_validate(value, context=folder)
    except ValidationError as error:
        return findings_of(error, model), None
