"""The address at which the API of a configuration's daemon is, even if the file has mistakes."""

import contextlib
import re
from pathlib import Path
from typing import NamedTuple

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


class ApiAddress(NamedTuple):
    """Where the API is."""

    address: Address | None
    """None where nothing is served."""
    scheme: str
    valid: bool
    """Whether the configuration is."""


def api_address_of(file: Path) -> ApiAddress:
    """Return where the API of a configuration's daemon is.

    From a file with mistakes only `listen` and `web` are taken, or the default if they are
    mistakes too.  Raises ConfigError if the file cannot be read.
    """
    try:
        config = load(file, namespace_or_anywhere)  # no Lease is needed
    except ConfigError:
        with contextlib.suppress(OSError):
            return _in(read_bytes(file, MOST_OF_A_FILE).decode("utf-8-sig", "replace"))
        raise
    return ApiAddress(config.web_listen, _scheme(config.web.tls), valid=True)


def _in(text: str) -> ApiAddress:
    """Return it from YAML; if that cannot be parsed as a whole, from the line of `listen`."""
    found: list[Value] = [one.value for one in documents(text)[:1]]
    if not found:
        found = [one.value for line in _LINE.findall(text) for one in documents(line)]
    for value in found:
        scheme = _scheme(child(value, "web", "tls"))
        for listen in (child(value, "web"), value):
            if isinstance(listen, dict) and "listen" in listen:
                with contextlib.suppress(ValidationError):
                    address = _LISTEN.validate_python(listen["listen"])
                    if address is not None or listen is value:
                        return ApiAddress(address, scheme, valid=False)
    return ApiAddress(LISTEN, "http", valid=False)


def _scheme(tls: object) -> str:
    return "http" if tls is None else "https"
