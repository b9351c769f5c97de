"""Reads a file besides the configuration into its model, or refuses it with all that is wrong."""

from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from autoscaler.config.error_messages import findings_of
from autoscaler.config.problems import (
    ConfigError,
    Finding,
    Places,
    Problem,
    chosen,
    located,
    one_per_place,
    syntax_problem,
)
from autoscaler.documents import Location, path_of, read
from autoscaler.file_contents import read_bytes

_MOST_BYTES = 8 * 2**20

_Model = TypeVar("_Model", bound=BaseModel)


def load_file(path: Path, model: type[_Model], form: str) -> _Model:
    """Read a YAML file of one mapping.  Raises ConfigError with every problem at once.

    ``form`` says in a sentence what the file holds.
    """
    file = str(path)
    try:
        text = read_bytes(path, _MOST_BYTES)
        text.decode()
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        raise ConfigError([Problem(file, None, "", None, message)]) from None
    except UnicodeDecodeError:
        message = "the file is not UTF-8; save it as UTF-8"
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
    found = None
    try:
        found = model.model_validate(value, context=path.absolute().parent)
    except ValidationError as error:
        findings: list[Finding] = one_per_place(findings_of(error, model))
        faults += located(findings, value, file, Places(text))
    if found is None or faults:
        faults.sort(key=lambda one: one.line or 0)
        raise ConfigError(chosen(faults, file, more=False))
    return found
