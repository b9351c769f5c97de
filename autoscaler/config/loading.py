"""Reads a configuration, or refuses it with all of its errors."""

import gc
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from autoscaler.config.checks import check_files
from autoscaler.config.conversion import config_of
from autoscaler.config.documents import Location, Value, entries
from autoscaler.config.error_messages import findings_of
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
from autoscaler.config.reading import Reading, Source, described
from autoscaler.config.settings import INCLUDED_KEYS, KEYS, Config, IncludedFile, MainFile, Sources
from autoscaler.config.sources import (
    MOST_FILES,
    Inclusion,
    NamedFile,
    included,
    patterns_of,
    unusable_files,
)
from autoscaler.config.spec_model import TargetModel
from autoscaler.config.web_files import unusable_web_files

_Model = TypeVar("_Model", bound=BaseModel)
_FREE = "x-"
"""The prefix of top-level keys of the user, such as for anchors."""

_MANIFESTS = {"kind", "spec"}
"""A reported manifest has one of these keys; a target has not."""

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""The file next to the service account's token, written by Kubernetes."""


ANYWHERE = "default"
"""The pod's namespace where a file is only checked, outside of a pod."""


def pod_namespace(file: Path = _NAMESPACE_FILE) -> str | None:
    """Return the namespace; None outside a pod, and if the file has no namespace."""
    try:
        text = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return text if re.fullmatch("[a-z0-9-]{1,63}", text) else None


def namespace_or_anywhere() -> str:
    """Return the namespace of the pod, or `ANYWHERE` outside of one: checking a file needs none."""
    return pod_namespace() or ANYWHERE


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Disable garbage collection, which is only for cycles and slow while a document grows."""
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
    *,
    part: Callable[[Value], Value] = lambda value: value,
    uses_files: bool = True,
) -> Config:
    """Read and check a configuration file and the files that it includes.

    ``namespace`` returns the pod's namespace; ``content`` is the content of the file, where
    it was read already and ``path`` only names it; ``part`` returns what of its document is the
    configuration.  Without ``uses_files`` the secrets and certificates that it names need not be
    there.  Raises ConfigError with every problem of every
    file at once, in their order.
    """
    reading = Reading()
    main = reading.source(path, "a configuration has at least `prometheus` and `targets`", content)
    if main is None:
        problems = chosen(reading.problems, str(path), more=reading.full)
        raise ConfigError(problems, Sources(reading.digests))
    files = _Files(reading, replace(main, value=part(main.value)), uses_files=uses_files)
    checking = _ShapeChecker(reading)
    config = _checked(files, checking, namespace())
    if config is None or checking.findings:
        config = None  # This frees the targets before lines are looked up.
        problems = _in_order([path, *files.inclusion.files], reading.problems, checking.findings)
        more = not checking.room or reading.full
        raise ConfigError(chosen(problems, str(path), more=more), files.sources)
    return config


class _Files:
    """The files of a configuration that could be read."""

    def __init__(self, reading: Reading, main: Source, *, uses_files: bool) -> None:
        self.main = main
        self.patterns = patterns_of(main.value, main.path.parent)
        self.inclusion = included(self.patterns.values(), main.path)
        of_what = "an included file has `targets` or `queries`"
        read = [reading.source(file, of_what) for file in self.inclusion.files]
        self.others = [source for source in read if source is not None]
        folder = main.path.absolute().parent
        self.unusable: list[NamedFile] = []
        if uses_files:
            self.unusable += unusable_files(main.value, folder)
            self.unusable += unusable_web_files(main.value, folder)
        named = tuple(file.path for file in self.unusable)
        faulty = [pattern.absolute() for pattern in self.inclusion.faults]
        patterns = tuple(pattern.absolute() for pattern in self.patterns.values())
        self.sources = Sources(reading.digests | dict.fromkeys([*faulty, *named]), patterns, named)
        self.wrong = bool(reading.problems or self.unusable)


def _checked(files: _Files, checking: "_ShapeChecker", own_namespace: str | None) -> Config | None:
    """Check all files and convert them; None with any error; most are findings."""
    main, inclusion = files.main, files.inclusion
    checking.add(main, _include_findings(files.patterns, inclusion))
    # Whether it only lacks what included files have.
    is_part = isinstance(main.value, dict) and set() < main.value.keys() <= INCLUDED_KEYS
    if is_part:
        message = "is missing: where the metrics come from; a file that another one includes is "
        message += "checked with that one"
        checking.add(main, [Finding(("prometheus",), message, show_value=False)])
    form = "a configuration is a mapping with `prometheus`, `targets` and so on"
    document = checking.document(main, MainFile, form)
    parts = [part for part in map(checking.included, files.others) if part is not None]
    every = [main, *files.others]
    all_read = len(files.others) == len(inclusion.files) and not inclusion.faults
    checks = check_files(every, own_namespace, complete=all_read and not is_part)
    broken = [*islice(checks, MOST_LOOKED_AT)]
    # Each target is converted after its check: the models of all would take most memory.
    targets = checking.targets(every)
    config = None
    if document is None or checking.findings or broken or files.wrong:
        deque(targets, maxlen=0)
    else:
        config = config_of(document, parts, targets, main.path, files.sources, own_namespace)
    checking.findings += broken[: checking.room]
    unusable = (Finding(file.location, file.fault, show_value=False) for file in files.unusable)
    checking.add(main, unusable)
    return config


def _include_findings(patterns: Mapping[int, Path], inclusion: Inclusion) -> Iterator[Finding]:
    for index, pattern in patterns.items():
        if pattern in inclusion.faults:
            yield Finding(("include", index), inclusion.faults[pattern])
    if len(patterns) > MOST_FILES:
        message = f"has more than {MOST_FILES:,} entries; a pattern such as targets.d/*.yaml names "
        yield Finding(("include",), f"{message}many files", show_value=False)


def _in_order(
    files: list[Path], problems: list[Problem], findings: Iterable[tuple[Source, Finding]]
) -> list[Problem]:
    by_source: dict[Path, tuple[Source, list[Finding]]] = {}
    for source, finding in findings:
        by_source.setdefault(source.path, (source, []))[1].append(finding)
    for path, (source, of_it) in by_source.items():
        found = one_per_place(of_it)
        problems = problems + located(found, source.value, str(path), source.places)
    order = {str(file): number for number, file in enumerate(files)}
    return sorted(problems, key=lambda problem: (order[problem.file], problem.line or 0))


class _ShapeChecker:
    """Checks the forms of files, and collects findings up to a limit."""

    def __init__(self, reading: Reading) -> None:
        self.findings: list[tuple[Source, Finding]] = []
        self._most = MOST_LOOKED_AT - len(reading.problems)

    @property
    def room(self) -> int:
        return max(0, self._most - len(self.findings))

    def add(self, source: Source, findings: Iterable[Finding]) -> None:
        """Add findings of one file up to the limit; further ones are not even created."""
        self.findings += [(source, finding) for finding in islice(findings, self.room)]

    def document(self, source: Source, model: type[_Model], form: str) -> _Model | None:
        """Check the forms in a file except its targets; None with any error."""
        if not isinstance(source.value, dict):
            self.add(source, [Finding((), form)])
            return None
        value = {key: inner for key, inner in source.value.items() if not key.startswith(_FREE)}
        targets = value.get("targets")
        manifests = _manifests(targets, ("targets",))
        self.add(source, manifests)
        left: dict[str, Value] = {"targets": []} if manifests or isinstance(targets, list) else {}
        return self._valid(source, value | left, model, ())

    def included(self, source: Source) -> IncludedFile | None:
        """Check an included file in the same way; it may not have the main file's keys."""
        message = "belongs in the main file: an included one has `queries` and `targets`"
        value = source.value if isinstance(source.value, dict) else {}
        others = sorted((KEYS - INCLUDED_KEYS) & value.keys())
        self.add(source, (Finding((key,), message, show_value=False) for key in others))
        form = "an included file is a mapping with `queries` and `targets`"
        return self.document(source, IncludedFile, form)

    def targets(self, sources: Iterable[Source]) -> Iterator[TargetModel]:
        """Check target by target, since pydantic creates all errors of a call; yield valid ones."""
        for source in sources:
            for index, target in entries(source.value, "targets"):
                if not self.room:
                    return
                place = ("targets", index)
                manifests = _manifests(target, place)
                self.add(source, manifests)
                model = None if manifests else self._valid(source, target, TargetModel, place)
                if model is not None and not self.findings:
                    yield model

    def _valid(
        self, source: Source, value: object, model: type[_Model], location: Location
    ) -> _Model | None:
        """Check a form; relative paths begin at the file's folder."""
        try:
            return model.model_validate(value, context=source.path.absolute().parent)
        except ValidationError as error:
            shape = findings_of(error, model)
            self.add(source, (below(location, finding) for finding in shape))
            return None


def _manifests(value: object, location: Location) -> list[Finding]:
    """Find manifests where targets belong."""
    if not isinstance(value, dict) or _MANIFESTS.isdisjoint(value):
        return []
    found = described(value, location)
    return [] if found is None else [Finding(*found, show_value=False)]
