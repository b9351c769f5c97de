"""Verifies the credentials of a request: a token, or a user's password."""

import base64
import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import bcrypt
from anyio import CapacityLimiter, to_thread

from autoscaler.config.settings import WebAuth
from autoscaler.config.web_files import WebFileError, token_in, users_in
from autoscaler.file_contents import stamp_of

T = TypeVar("T")


class RotatingValue(Generic[T]):
    """Creates a value again when its files change; the last valid one stays while they are invalid.

    ``told`` is called with False and a sentence when they become invalid, and with True when they
    are valid again. The first value is created at once: raises WebFileError and OSError.
    Thread-safe.
    """

    def __init__(
        self,
        name: str,
        files: Sequence[Path],
        make: Callable[[], T],
        told: Callable[[bool, str], None],
    ) -> None:
        self._name, self._files = name, files
        self._make, self._told = make, told
        self._lock = threading.Lock()
        self._seen = self._stamps()
        self._value = make()
        self._fault = ""

    def current(self) -> T:
        """Return the value of the files, or of their last valid content."""
        with self._lock:
            stamps = self._stamps()
            if stamps != self._seen:
                self._seen = stamps
                self._renew()
            return self._value

    def _renew(self) -> None:
        try:
            self._value = self._make()
        except WebFileError as error:
            fault = str(error)
        except OSError as error:
            fault = f"{error.filename} cannot be read: {error.strerror}"
        else:
            fault = ""
        if fault != self._fault:
            stays = f": {fault}; the previous content stays in use"
            self._told(not fault, self._name + (stays if fault else " can be used again"))
        self._fault = fault

    def _stamps(self) -> list[tuple[int, ...] | None]:
        return [_stamp(path) for path in self._files]


def _stamp(path: Path) -> tuple[int, ...] | None:
    with suppress(OSError):
        return stamp_of(path.stat())
    return None


MOST_AT_ONCE = 2
"""The most passwords that are checked at once: each takes a processor for about 0.1 s."""
MOST_WAITING = 16
"""The most further checks that wait; beyond them the answer is 503 with Retry-After."""
_MOST_REMEMBERED = 64
_LONGEST_PASSWORD = 72
"""The bytes of a password that bcrypt uses."""
_NO_SALT_NO_HASH = "." * 53


class Verdict(Enum):
    """The result of a check."""

    RIGHT = auto()
    MISSING = auto()
    """The request has no credentials."""
    WRONG = auto()
    BUSY = auto()
    """Too many passwords wait to be checked."""


class WebCredentials:
    """Checks the Authorization headers of requests.

    Everything but `check` runs on worker threads. ``told`` is as for `RotatingValue`.
    """

    def __init__(self, auth: WebAuth, told: Callable[[bool, str], None]) -> None:

        def rotating(
            name: str, file: Path | None, make: Callable[[Path], T]
        ) -> RotatingValue[T] | None:
            return None if file is None else RotatingValue(name, [file], partial(make, file), told)

        self._token = rotating("web.auth.bearerTokenFile", auth.bearer_token_file, token_in)
        self._users = rotating("web.auth.basicAuthUsersFile", auth.basic_auth_users_file, users_in)
        self._key = secrets.token_bytes(32)
        self._verified: OrderedDict[bytes, None] = OrderedDict()
        """Digests of recently accepted passwords, with their users and hashes."""
        self._waiting = 0
        self._limiter = CapacityLimiter(MOST_AT_ONCE)

    @property
    def challenges(self) -> list[str]:
        """The values of WWW-Authenticate."""
        bearer = ['Bearer realm="autoscaler"'] if self._token is not None else []
        basic = ['Basic realm="autoscaler", charset="UTF-8"'] if self._users is not None else []
        return [*bearer, *basic]

    async def check(self, header: str) -> Verdict:
        """Check an Authorization header; only the event loop may call this."""
        scheme, _, value = header.partition(" ")
        if not header:
            return Verdict.MISSING
        if scheme.lower() == "bearer" and self._token is not None:
            return await to_thread.run_sync(self._check_token, self._token, value.strip())
        if scheme.lower() == "basic" and self._users is not None:
            users = await to_thread.run_sync(self._users.current)
            return await self._check_user(users, value.strip())
        return Verdict.WRONG

    def _check_token(self, token: RotatingValue[bytes], given: str) -> Verdict:
        right = hmac.compare_digest(token.current(), given.encode("latin-1", "replace"))
        return Verdict.RIGHT if right else Verdict.WRONG

    async def _check_user(self, users: Mapping[str, bytes], value: str) -> Verdict:
        try:
            name, _, password = base64.b64decode(value, validate=True).partition(b":")
            hashed = users.get(name.decode())
        except ValueError:
            return Verdict.WRONG
        # It represents a correct password until its hash changes.
        known = b"\0".join((name, hashed or b"", password))
        digest = hmac.digest(self._key, known, hashlib.sha256)
        if digest in self._verified:
            self._verified.move_to_end(digest)
            return Verdict.RIGHT
        if self._waiting >= MOST_AT_ONCE + MOST_WAITING:
            return Verdict.BUSY
        dearest = max(map(_cost, users.values()))
        # An unknown user takes as long as a known one.
        given = password, hashed or _hash_of_nobody(dearest), dearest
        self._waiting += 1
        try:
            right = await to_thread.run_sync(_is, *given, limiter=self._limiter)
        finally:
            self._waiting -= 1
        if not right or hashed is None:
            return Verdict.WRONG
        self._verified[digest] = None
        if len(self._verified) > _MOST_REMEMBERED:
            self._verified.popitem(last=False)
        return Verdict.RIGHT


def _is(password: bytes, hashed: bytes, dearest: int) -> bool:
    """Return whether a password is correct; a wrong one takes the time of the ``dearest`` cost."""
    too_long = len(password) > _LONGEST_PASSWORD
    if bcrypt.checkpw(b"" if too_long else password, hashed) and not too_long:
        return True
    # Each cost takes twice the time of the previous one: all from its own to the highest, and its
    # own once more, together take as long as the highest.
    for cost in range(_cost(hashed), dearest):
        bcrypt.checkpw(b"", _hash_of_nobody(cost))
    return False


def _cost(hashed: bytes) -> int:
    return int(hashed.split(b"$")[2])


def _hash_of_nobody(cost: int) -> bytes:
    """Return a hash of no password that takes the time of a cost."""
    return f"$2b${cost:02}${_NO_SALT_NO_HASH}".encode()
