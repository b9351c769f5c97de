"""Reads a configuration file, or refuses it with everything that is wrong with it."""

from collections.abc import Mapping
from pathlib import Path

import yaml
from pydantic import ValidationError

from autoscaler.config.conversion import config_of
from autoscaler.config.document import DEEPEST, Place, TooDeepError, Value, child, place_of, read
from autoscaler.config.document_rules import document_findings
from autoscaler.config.problems import (
    ConfigError,
    Finding,
    Location,
    Problem,
    describe,
    kind_of,
    one_line,
    path_of,
)
from autoscaler.config.sentences import findings_of
from autoscaler.config.settings import Config
from autoscaler.config.settings_model import DocumentModel
from autoscaler.config.spec_model import HorizontalPodAutoscalerSpec
from autoscaler.config.spec_rules import spec_findings

_SHOWN_OF_PROMETHEUS: tuple[Location, ...] = (
    ("prometheus", "timeout"),
    ("prometheus", "tls", "insecureSkipVerify"),
    ("prometheus", "tls", "serverName"),
)


def load(path: Path) -> Config:
    """Read and check a configuration file.

    Raises ConfigError with every problem at once, in the order of the file.
    """
    file = str(path)
    text = _text(path, file)
    problems: list[Problem] = []

    def report(location: Location, line: int, message: str) -> None:
        problems.append(Problem(file, line, path_of(location), None, message))

    try:
        value = read(text, report)
    except yaml.YAMLError as error:
        problems.append(_syntax_problem(error, file))
        value = None
    else:
        if value is None and not problems:
            message = "the file is empty; a configuration has at least `prometheus` and `targets`"
            problems.append(Problem(file, None, "", None, message))
    if value is None:
        raise ConfigError(problems)
    document, findings = _validated(value, path.absolute().parent)
    if document is not None and not problems and not findings:
        return config_of(document, path)
    places: dict[Location, Place] = {}
    read(text, lambda *_: None, places)
    problems.extend(_located(findings, value, file, places))
    raise ConfigError(sorted(problems, key=lambda problem: problem.line or 0))


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
    findings = _one_per_place([*findings, *spec_findings(spec)])
    if model is None or findings:
        raise ConfigError(_located(findings, spec, "spec", None))
    return model


def _text(path: Path, file: str) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = {
            FileNotFoundError: "there is no such file",
            IsADirectoryError: "this is a folder; name a YAML file",
            PermissionError: "this user may not read the file",
        }.get(type(error), f"the file cannot be read: {error.strerror}")
    else:
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            reason = "the file is not UTF-8; save it as UTF-8"
            problem = Problem(file, line, "", f"the byte 0x{data[error.start]:02x}", reason)
            raise ConfigError([problem]) from None
    raise ConfigError([Problem(file, None, "", None, reason)])


def _syntax_problem(error: yaml.YAMLError, file: str) -> Problem:
    if isinstance(error, TooDeepError):
        message = f"lists and mappings stand more than {DEEPEST} deep in one another"
        return Problem(file, error.line, "", None, f"{message}; a configuration needs 12")
    if not isinstance(error, yaml.MarkedYAMLError):
        message = "not YAML: the file holds a character that YAML does not allow"
        return Problem(file, None, "", None, message)
    mark = error.problem_mark or error.context_mark
    where = "" if mark is None else f" at column {mark.column + 1}"
    known = {
        "found character that cannot start any token": "a tab or another character that cannot "
        "begin a value; indent with spaces, and put texts that begin with @ or ` in quotes",
        "mapping values are not allowed in this context": 'a ":" that YAML does not expect; check '
        'the indentation, and put texts with ": " in quotes',
        "could not find expected ':'": 'a ":" is missing after a key',
        "did not find expected key": "a key is expected; check the indentation, commas and "
        "brackets",
    }
    reason = known.get(error.problem or "", error.problem or "it cannot be read")
    line = None if mark is None else mark.line + 1
    return Problem(file, line, "", None, f"not YAML{where}: {reason}")


def _validated(value: Value, folder: Path) -> tuple[DocumentModel | None, list[Finding]]:
    if not isinstance(value, dict):
        message = "a configuration is a mapping with `prometheus`, `targets` and so on"
        return None, [Finding((), message)]
    findings: list[Finding] = []
    document = None
    try:
        document = DocumentModel.model_validate(value)
    except ValidationError as error:
        findings.extend(findings_of(error, DocumentModel))
    return document, _one_per_place([*findings, *document_findings(value, folder)])


def _one_per_place(findings: list[Finding]) -> list[Finding]:
    """Keep the first finding of each place: a name that is malformed need not be unknown too."""
    first: dict[Location, Finding] = {}
    for finding in findings:
        first.setdefault(finding.location, finding)
    return list(first.values())


def _located(
    findings: list[Finding], document: object, file: str, places: Mapping[Location, Place] | None
) -> list[Problem]:
    problems = []
    for finding in findings:
        place = place_of(finding.location, places) if places is not None else None
        problems.append(
            Problem(
                file=file,
                line=place.line if place is not None else None,
                path=path_of(_as_written(finding.location, document)),
                value=_shown(finding, document, place),
                message=finding.message,
            )
        )
    return problems


def _as_written(location: Location, document: object) -> Location:
    """Leave out `query` where the user wrote the PromQL directly."""
    if location[-1:] == ("query",) and isinstance(child(document, *location[:-1]), str):
        return location[:-1]
    return location


def _shown(finding: Finding, document: object, place: Place | None) -> str | None:
    location = _as_written(finding.location, document)
    if not finding.show_value or (location and child(document, *location[:-1]) is None):
        return None
    value = child(document, *location)
    if location[:1] in {(), ("prometheus",)} and location not in _SHOWN_OF_PROMETHEUS:
        return None if isinstance(value, str) else kind_of(value)
    if place is not None and place.plain and not isinstance(value, str):
        return one_line(place.plain)
    return describe(value)
