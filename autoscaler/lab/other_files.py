"""Reads other files than the configuration into a model, or refuses them with all problems."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from autoscaler.config.documents import Location, Value, path_of, read
from autoscaler.config.error_messages import findings_of
from autoscaler.config.problems import (
    ConfigError,
    Finding,
    Problem,
    chosen,
    located,
    one_per_place,
    syntax_problem,
)
from autoscaler.config.reading import Source
from autoscaler.file_contents import read_bytes

_MOST_BYTES = 8 * 2**20

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True)
class MappingFile(Source):
    """A YAML file with one mapping, and the errors of its text."""

    value: dict[str, Value]
    faults: Sequence[Problem] = ()

    def model(self, model: type[_Model], value: Mapping[str, Value] | None = None) -> _Model:
        """Return the file, or a part of it, as a model. Raises ConfigError."""
        given = self.value if value is None else value
        try:
            found = model.model_validate(given, context=self.path.absolute().parent)
        except ValidationError as error:
            self.refuse(one_per_place(findings_of(error, model)))
            raise
        self.refuse(())
        return found

    def refuse(self, findings: Sequence[Finding]) -> None:
        """Raise ConfigError if there are findings, or faults of the text."""
        if findings or self.faults:
            file = str(self.path)
            problems = [*self.faults, *located(findings, self.value, file, self.places)]
            problems.sort(key=lambda problem: problem.line or 0)
            raise ConfigError(chosen(problems, file, more=False))


def read_file(path: Path, form: str) -> MappingFile:
    """Read a YAML file with one mapping. Raises ConfigError if it cannot be read.

    ``form`` is a sentence about the expected content.
    """
    file = str(path)
    try:
        text = read_bytes(path, _MOST_BYTES)
        text.decode()
    except (OSError, UnicodeDecodeError) as error:
        message = "the file is not UTF-8; save it as UTF-8"
        if isinstance(error, OSError):
            message = f"cannot be read: {error.strerror or error}"
        raise ConfigError([Problem(file, None, "", None, message)]) from None
    faults: list[Problem] = []

    def report(location: Location, line: int, message: str) -> None:
        faults.append(Problem(file, line, path_of(location), None, message))

    try:
        value = read(text, report)
    except yaml.YAMLError as error:
        raise ConfigError([*faults, syntax_problem(error, file, text)]) from None
    if not isinstance(value, dict):
        raise ConfigError([*faults, Problem(file, None, "", None, form)])
    return MappingFile(path, text, value, faults)
