"""Files of PromqlAutoscalers: checked, and their targets added to a configuration."""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import yaml
from pydantic import BaseModel, Field, ValidationError

from autoscaler.config import Config, ConfigError, Problem, load
from autoscaler.config import objects as policy
from autoscaler.config.conversion import to_core
from autoscaler.config.documents import MOST_VALUES, Tally, Value, child, path_of, read
from autoscaler.config.error_messages import findings_of
from autoscaler.config.fields import DnsLabel, DnsSubdomain
from autoscaler.config.loading import namespace_or_anywhere
from autoscaler.config.objects import KIND
from autoscaler.config.problems import (
    MOST_LOOKED_AT,
    Finding,
    Places,
    below,
    chosen,
    located,
    one_per_place,
    syntax_problem,
)
from autoscaler.config.reading import Reading, within
from autoscaler.config.rule_forms import Context
from autoscaler.core.target import Target

_BEGIN = re.compile(rb"^---(?=\s|\Z)", re.MULTILINE)
"""The begin of a document, as kubectl splits files."""

_OBJECT = re.compile(rb"^[^#\n]*\bkind[\"']?\s*:\s*[\"']?" + KIND.encode() + rb"\b", re.MULTILINE)
_TOO_MANY = f"has more than {MOST_LOOKED_AT:,} documents or objects: split the file"
_UNCHECKED = "; without --config its queries, servers and quotas are not checked"


class _Metadata(BaseModel):
    namespace: DnsLabel = Field(description="the namespace of the workload, such as shop")
    name: DnsSubdomain = Field(description="the name of the object, such as web")


def load_with_objects(file: Path, objects: Sequence[Path] | None) -> Config:
    """Read a configuration, and add the targets of object files.  Raises ConfigError."""
    return with_objects(load(file, namespace_or_anywhere), objects)


def with_objects(config: Config, files: Sequence[Path] | None) -> Config:
    """Add the targets of object files to a configuration.  Raises ConfigError."""
    reader, problems, targets = ObjectReader(config), list[Problem](), [*config.targets]
    for file in files or ():
        try:
            targets += reader.targets(file)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    if files and not config.objects.enabled:
        ignored = "the daemon ignores objects, because `objects.enabled` is false"
        print(f"note: {config.path}: {ignored}", file=sys.stderr)
    return config.model_copy(update={"targets": tuple(targets)}) if files else config


def has_objects(path: Path, content: bytes | None) -> bool:
    """Return whether a readable file, or its ``content``, has a PromqlAutoscaler."""
    return _OBJECT.search(Reading().text_of(path, content) or b"") is not None


class ObjectReader:
    """Reads the objects of files, one file after another.

    Without a configuration only the form of objects and the rules between their fields are checked.
    """

    def __init__(self, config: Config | None) -> None:
        self._policy = None if config is None else policy.ObjectPolicy(config)
        self._clusters = [""] if config is None else [*config.connections]
        self.unchecked = _UNCHECKED if config is None else ""
        of_files = () if config is None else config.targets
        self._owners = {target.key: "a target of the configuration" for target in of_files}

    def targets(self, path: Path, content: bytes | None = None) -> list[Target]:
        """Return the targets of a file's objects; raises ConfigError with all faults."""
        reading, file, tally = Reading(), str(path), Tally()
        text = reading.text_of(path, content) or b""
        targets, problems, before, line = list[Target](), reading.problems, 0, 0
        ends = [begin.start() for begin in islice(_BEGIN.finditer(text), MOST_LOOKED_AT + 1)]
        if len(ends) > MOST_LOOKED_AT:
            raise ConfigError([Problem(file, None, "", None, _TOO_MANY)])
        for end in (*ends, len(text)):
            tally.begin_part()
            try:
                made, faults = self._document(file, text[before:end], line, tally)
            except yaml.YAMLError as error:
                made, faults = [], [syntax_problem(error, file, text[before:end])]
            targets += made
            problems += [replace(fault, line=(fault.line or 1) + line) for fault in faults]
            before, line = end, line + text.count(b"\n", before, end)
            if len(problems) > MOST_LOOKED_AT or tally.values > MOST_VALUES:
                break
        if not targets and not problems:
            nothing = [Problem(file, None, "", None, f"has no {KIND}")]
            problems = reading.manifests(file, text) or nothing
        if problems:
            raise ConfigError(chosen(problems, file, more=False))
        return targets

    def _document(
        self, file: str, text: bytes, line: int, tally: Tally
    ) -> tuple[list[Target], list[Problem]]:
        """Return the targets of a document, and its faults; other kinds are ignored."""
        problems, made = list[Problem](), list[Target | Finding]()
        value = read(
            text,
            lambda at, of, why: problems.append(Problem(file, of, path_of(at), None, why)),
            tally,
        )
        objects = [(at, each) for at, each in within(value) if child(each, "kind") == KIND]
        if len(objects) > MOST_LOOKED_AT:
            return [], [Problem(file, 1, "", None, _TOO_MANY)]
        for location, manifest in objects:
            for each in self._made(manifest, f"{file}:{line + 1}"):
                made.append(below(location, each) if isinstance(each, Finding) else each)
        if findings := one_per_place(each for each in made if isinstance(each, Finding)):
            problems += located(findings, value, file, Places(text))
        targets = [each for each in made if isinstance(each, Target)]
        return targets, problems if objects else []

    def _made(self, manifest: Value, file: str) -> Iterator[Target | Finding]:
        """Yield the targets of an object, one for each cluster, and its faults."""
        if child(manifest, "apiVersion") != policy.API_VERSION:
            yield Finding(("apiVersion",), f"must be {policy.API_VERSION}")
        valid = _Metadata.model_construct(namespace="", name="")
        try:
            valid = _Metadata.model_validate(child(manifest, "metadata") or {})
        except ValidationError as error:
            yield from (below(("metadata",), fault) for fault in findings_of(error, _Metadata))
        own = f'{KIND} "{valid.name}" of {file}'
        for cluster in self._clusters:
            spec = child(manifest, "spec")
            made = self._judged(policy.ScalingObject(valid.namespace, valid.name, spec, cluster))
            if not isinstance(made, Target):
                yield from (below(("spec",), fault) for fault in made)
            elif valid.namespace and self._owners.setdefault(made.key, own) is not own:
                message = policy.conflict(made, self._owners[made.key]).message
                yield Finding(("spec", "scaleTargetRef", "name"), message)
            else:
                yield made

    def _judged(self, obj: policy.ScalingObject) -> Target | list[Finding]:
        if self._policy is not None:
            made = self._policy.judged(obj)
            return made if isinstance(made, Target) else made[1]
        model = [*policy.outsized(obj.spec)] or policy.checked_spec(obj.spec, Context())
        if isinstance(model, list):
            return model
        return Target(obj.namespace, to_core(model), (), object_name=obj.name)
