"""The address at which the daemon of a configuration listens, even if the file has mistakes."""

import contextlib
import re
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from autoscaler.config import Address, ConfigError, load
from autoscaler.config.document import Value, child, documents
from autoscaler.config.fields import Listen
from autoscaler.config.loading import namespace_or_anywhere
from autoscaler.config.settings import LISTEN
from autoscaler.config.sources import MOST_OF_A_FILE
from autoscaler.file_contents import read_bytes

_LISTEN: TypeAdapter[Address | None] = TypeAdapter(Listen | None)
_LINE = re.compile(r"^listen[ \t]*:.*$", re.MULTILINE)


def listen_of(file: Path) -> tuple[Address | None, bool]:
    """Return `listen` of a configuration, and whether the file is valid.

    From a file with mistakes only `listen` is taken, or its default if that is a mistake too.
    Raises ConfigError if the file cannot be read.
    """
    try:
        return load(file, namespace_or_anywhere).listen, True  # no Lease is needed
    except ConfigError:
        with contextlib.suppress(OSError):
            return _listen_in(
                read_bytes(file, MOST_OF_A_FILE).decode("utf-8-sig", "replace")
            ), False
        raise


def _listen_in(text: str) -> Address | None:
    """Return `listen` from YAML; if that cannot be parsed as a whole, from its own line."""
    found: list[Value] = [one.value for one in documents(text)[:1]]
    if not found:
        found = [one.value for line in _LINE.findall(text) for one in documents(line)]
    for value in found:
        if isinstance(value, dict) and "listen" in value:
            with contextlib.suppress(ValidationError):
                return _LISTEN.validate_python(child(value, "listen"))
    return LISTEN
