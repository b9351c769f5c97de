"""Reads a configuration, or refuses it with everything that is wrong with it."""

import gc
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from autoscaler.config.checks import check_files, check_value
from autoscaler.config.conversion import config_of
from autoscaler.config.error_messages import findings_of
from autoscaler.config.problems import (
    MOST_LOOKED_AT,
    MOST_PROBLEMS,
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
    MOST_FILES,
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
from autoscaler.documents import Location, Value
from autoscaler.importers.manifests import Conversion, advice_on, ready_of
from autoscaler.importers.scaled_objects import Comparisons, Shared

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


class _FileFindings(list[tuple[Source, Finding]]):
    """The findings so far, `MOST_LOOKED_AT` at most with the problems ``before`` them."""

    def __init__(self, before: int) -> None:
        super().__init__()
        self._before = before

    @property
    def room(self) -> int:
        """How many more are looked for."""
        return max(0, MOST_LOOKED_AT - self._before - len(self))

    def add(self, source: Source, findings: Iterable[Finding]) -> None:
        """Add as many of one file as there is room for; the others are not even made."""
        self += [(source, finding) for finding in islice(findings, self.room)]


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
    conversion: Conversion | None = None,
) -> Config:
    """Read and check a configuration file and the files that it includes.

    ``namespace`` returns that of the pod that we run in; ``content`` is what the file holds, where
    it was read already and ``path`` only names it.  ``conversion`` collects what manifests become
    that stand in place of a file.  Raises ConfigError with every problem of every
    file at once, in their order.
    """
    reading = Reading(conversion)
    main = reading.source(path, "a configuration has at least `prometheus` and `targets`", content)
    if main is None:
        problems = chosen(reading.problems, str(path), more=reading.full)
        raise ConfigError(problems, Sources(reading.digests))
    files = _read_files(reading, main)
    findings = _FileFindings(len(reading.problems))
    config = _checked(files, findings, namespace())
    if config is None or findings:
        config = None  # frees the targets, before lines are looked up
        problems = _in_order([path, *files.inclusion.files], reading.problems, findings)
        more = not findings.room or reading.full
        raise ConfigError(chosen(problems, str(path), more=more), files.sources)
    return config


@dataclass(frozen=True)
class _Files:
    """The files of a configuration, as far as they could be read."""

    reading: Reading
    main: Source
    others: Sequence[Source]
    patterns: Mapping[int, Path]
    """Those of `include`, by their positions."""
    inclusion: Inclusion
    unusable: Sequence[NamedFile]

    @property
    def every(self) -> Sequence[Source]:
        """All that could be read, the main one first."""
        return [self.main, *self.others]

    @property
    def complete(self) -> bool:
        """Whether no file is missing that may hold a query."""
        inclusion = self.inclusion
        all_read = len(self.others) == len(inclusion.files) and not inclusion.faults
        return all_read and not _is_included_one(self.main)

    @property
    def sources(self) -> Sources:
        """All files, those that could not be read and those that are named among them."""
        missing = [
            *(pattern.absolute() for pattern in self.inclusion.faults),
            *(file.path for file in self.unusable),
        ]
        return Sources(
            self.reading.digests | dict.fromkeys(missing),
            tuple(pattern.absolute() for pattern in self.patterns.values()),
            tuple(file.path for file in self.unusable),
        )


def _read_files(reading: Reading, main: Source) -> _Files:
    patterns = patterns_of(main.value, main.path.parent)
    inclusion = included(patterns.values(), main.path)
    read = [
        reading.source(file, "an included file has `targets` or `queries`")
        for file in inclusion.files
    ]
    folder = main.path.absolute().parent
    unusable = [*unusable_files(main.value, folder), *unusable_web_files(main.value, folder)]
    others = [source for source in read if source is not None]
    return _Files(reading, main, others, patterns, inclusion, unusable)


def _checked(files: _Files, findings: _FileFindings, own_namespace: str | None) -> Config | None:
    """Check all files and convert them; None where anything is wrong, most of it in findings."""
    main, left = files.main, files.reading.comparisons
    findings.add(main, _include_findings(files.patterns, files.inclusion))
    if _is_included_one(main):
        message = "is missing: where the metrics come from; a file that another one includes is "
        message += "checked with that one"
        findings.add(main, [Finding(("prometheus",), message, show_value=False)])
    form = "a configuration is a mapping with `prometheus`, `targets` and so on"
    document = _document(main, MainFile, form, findings, left)
    read_parts = [_included_file(source, findings, left) for source in files.others]
    parts = [part for part in read_parts if part is not None]
    checks = check_files(files.every, own_namespace, complete=files.complete)
    broken = [*islice(checks, MOST_LOOKED_AT)]
    # Each target is converted once it is checked: the models of all would take most memory.
    targets = _targets(files.every, findings, left)
    config = None
    if document is None or findings or broken or files.unusable or files.reading.problems:
        deque(targets, maxlen=0)
    else:
        config = config_of(document, parts, targets, main.path, files.sources, own_namespace)
    findings += broken[: findings.room]
    unusable = (Finding(file.location, file.fault, show_value=False) for file in files.unusable)
    findings.add(main, unusable)
    return config


def _include_findings(patterns: Mapping[int, Path], inclusion: Inclusion) -> Iterator[Finding]:
    for index, pattern in patterns.items():
        if pattern in inclusion.faults:
            yield Finding(("include", index), inclusion.faults[pattern])
    if len(patterns) > MOST_FILES:
        message = f"has more than {MOST_FILES:,} entries; a pattern such as targets.d/*.yaml names "
        yield Finding(("include",), f"{message}many files", show_value=False)


def parse_spec(spec: Mapping[str, object]) -> HorizontalPodAutoscalerSpec:
    """Check one HorizontalPodAutoscalerSpec (autoscaling/v2), given as plain data.

    Queries are not looked up.  Raises ConfigError with every problem at once.
    """
    shape, model = _validated(HorizontalPodAutoscalerSpec, spec)
    broken = check_value(spec, HorizontalPodAutoscalerSpec, Context())
    findings = one_per_place([*shape, *broken])
    if model is None or findings:
        raise ConfigError(located(findings, spec, "spec"))
    return model


def _in_order(files: list[Path], problems: list[Problem], findings: _FileFindings) -> list[Problem]:
    """Look up the findings, and put all problems in the order of the files and their lines."""
    by_source: dict[Path, tuple[Source, list[Finding]]] = {}
    for source, finding in findings:
        by_source.setdefault(source.path, (source, []))[1].append(finding)
    for path, (source, of_it) in by_source.items():
        found = one_per_place(of_it)
        problems = problems + located(found, source.value, str(path), source.places)
    order = {str(file): number for number, file in enumerate(files)}
    return sorted(problems, key=lambda problem: (order[problem.file], problem.line or 0))


def _is_included_one(main: Source) -> bool:
    """Return whether a main file has nothing but what included ones have."""
    return isinstance(main.value, dict) and bool(main.value) and main.value.keys() <= INCLUDED_KEYS


def _included_file(
    source: Source, findings: _FileFindings, left: Comparisons
) -> IncludedFile | None:
    message = "belongs in the main file: an included one has `queries` and `targets`"
    value = source.value if isinstance(source.value, dict) else {}
    others = sorted((KEYS - INCLUDED_KEYS) & value.keys())
    findings.add(source, [Finding((key,), message, show_value=False) for key in others])
    form = "an included file is a mapping with `queries` and `targets`"
    return _document(source, IncludedFile, form, findings, left)


def _document(
    source: Source, model: type[_Model], form: str, findings: _FileFindings, left: Comparisons
) -> _Model | None:
    """Check the shapes in a file but its targets; what is wrong is added to ``findings``."""
    if not isinstance(source.value, dict):
        findings.add(source, [Finding((), form)])
        return None
    value = {key: inner for key, inner in source.value.items() if not key.startswith(_FREE)}
    targets = value.get("targets")
    manifests = _manifests(targets, ("targets",), Shared(left))
    findings.add(source, manifests)
    without: dict[str, Value] = {"targets": []} if manifests or isinstance(targets, list) else {}
    return _valid(source, value | without, model, (), findings)


def _targets(
    sources: Iterable[Source], findings: _FileFindings, left: Comparisons
) -> Iterator[TargetModel]:
    """Check the shapes of the targets one by one, and yield them as long as nothing is wrong.

    All at once pydantic would make errors of all that is wrong before it returns one.
    """
    ready = MOST_PROBLEMS
    for source in sources:
        shared = Shared(left)
        targets = source.value.get("targets") if isinstance(source.value, dict) else None
        for index, target in enumerate(targets if isinstance(targets, list) else ()):
            if not findings.room:
                return
            place = ("targets", index)
            manifests = _manifests(target, place, shared, with_ready=ready > 0)
            ready -= len(manifests)
            findings.add(source, manifests)
            model = None if manifests else _valid(source, target, TargetModel, place, findings)
            if model is not None and not findings:
                yield model


def _manifests(
    value: Value, location: Location, shared: Shared, *, with_ready: bool = True
) -> list[Finding]:
    """Find manifests where targets belong; ``shared`` is that of the file.

    ``with_ready`` also writes what they would be, which takes long.
    """
    if not isinstance(value, dict) or _MANIFESTS.isdisjoint(value):
        return []
    return [
        Finding(
            *(one.location, one.message),
            show_value=False,
            details=one.details,
            ready=ready_of([one], entry=True) if one.kind and with_ready else "",
        )
        for one in advice_on(value, location, shared)
    ]


def _valid(
    source: Source, value: object, model: type[_Model], location: Location, findings: _FileFindings
) -> _Model | None:
    shape, result = _validated(model, value, source.path.absolute().parent)
    findings.add(source, (below(location, finding) for finding in shape))
    return result


def _validated(
    model: type[_Model], value: object, folder: Path = Path()
) -> tuple[Iterable[Finding], _Model | None]:
    """Check a shape; ``folder`` is where relative file names begin."""
    try:
        return (), model.model_validate(value, context=folder)
    except ValidationError as error:
        return findings_of(error, model), None
