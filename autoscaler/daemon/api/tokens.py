"""The tokens of `continue`: where the next page of a list begins, opaque to clients."""

import base64
import binascii
import json

from autoscaler.core.text import printable
from autoscaler.daemon.api.parameters import RIGHT
from autoscaler.daemon.api.problems import Parameter, bad

_LONGEST_SHOWN = 100


def token_of(of: str, *place: int | str) -> str:
    """Return the token of a place in a kind of list."""
    text = json.dumps([of, *place], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def place_after(token: str | None, of: str, *kinds: type) -> list[int | str] | None:
    """Return the place that a token is of; None without one.  Raises ProblemError."""
    if not token:
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(token.encode() + b"=" * (-len(token) % 4)))
    except (ValueError, RecursionError, binascii.Error):
        found = None
    if type(found) is not list or [type(one) for one in found] != [str, *kinds] or found[0] != of:
        shown = printable(token, _LONGEST_SHOWN)
        raise bad(Parameter("continue", shown, f"must be {RIGHT['continue']}"))
    return found[1:]
