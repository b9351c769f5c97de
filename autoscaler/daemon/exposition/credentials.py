"""Whether the credentials of a request are right: a token, or the password of a user."""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import partial

import bcrypt
from anyio import CapacityLimiter, to_thread

from autoscaler.config.web_files import token_in, users_in
from autoscaler.config.web_settings import WebAuth
from autoscaler.daemon.exposition.rotating import Rotating

MOST_AT_ONCE = 2
"""So many passwords are checked at once: each takes a processor for about 0.1 s."""
MOST_WAITING = 16
"""So many more wait for that; a further one is answered at once that it has to come again."""
_MOST_REMEMBERED = 64
_LONGEST_PASSWORD = 72
"""The bytes of a password that bcrypt takes in."""
_NO_SALT_NO_HASH = "." * 53


class Verdict(Enum):
    """What is to be done with a request."""

    RIGHT = auto()
    MISSING = auto()
    """It has no credentials."""
    WRONG = auto()
    BUSY = auto()
    """Too many passwords wait to be checked."""


class Credentials:
    """Checks the Authorization headers of requests.

    All but `check` is done on worker threads.  ``told`` is as for `Rotating`.
    """

    def __init__(self, auth: WebAuth, told: Callable[[bool, str], None]) -> None:
        token, users = auth.bearer_token_file, auth.basic_auth_users_file
        self._token: Rotating[bytes] | None = None
        self._users: Rotating[Mapping[str, bytes]] | None = None
        if token is not None:
            made = partial(token_in, token)
            self._token = Rotating("web.auth.bearerTokenFile", [token], made, told)
        if users is not None:
            make = partial(users_in, users)
            self._users = Rotating("web.auth.basicAuthUsersFile", [users], make, told)
        self._key = secrets.token_bytes(32)
        self._verified: OrderedDict[bytes, None] = OrderedDict()
        """Digests of the passwords that were right lately, with their users and hashes."""
        self._waiting = 0
        self._limiter: CapacityLimiter | None = None

    @property
    def challenges(self) -> list[str]:
        """The values of WWW-Authenticate."""
        bearer = ['Bearer realm="autoscaler"'] if self._token is not None else []
        basic = ['Basic realm="autoscaler", charset="UTF-8"'] if self._users is not None else []
        return [*bearer, *basic]

    async def check(self, header: str) -> Verdict:
        """Check an Authorization header; the event loop alone calls this."""
        scheme, _, value = header.partition(" ")
        if not header:
            return Verdict.MISSING
        if scheme.lower() == "bearer" and self._token is not None:
            return await to_thread.run_sync(self._check_token, self._token, value.strip())
        if scheme.lower() == "basic" and self._users is not None:
            users = await to_thread.run_sync(self._users.current)
            return await self._check_user(users, value.strip())
        return Verdict.WRONG

    def _check_token(self, token: Rotating[bytes], given: str) -> Verdict:
        right = hmac.compare_digest(token.current(), given.encode("latin-1", "replace"))
        return Verdict.RIGHT if right else Verdict.WRONG

    async def _check_user(self, users: Mapping[str, bytes], value: str) -> Verdict:
        try:
            given = base64.b64decode(value, validate=True)
            name, _, password = given.partition(b":")
            hashed = users.get(name.decode())
        except (binascii.Error, ValueError):
            return Verdict.WRONG
        digest = self._digest(name, hashed or b"", password)
        if digest in self._verified:
            self._verified.move_to_end(digest)
            return Verdict.RIGHT
        if self._waiting >= MOST_AT_ONCE + MOST_WAITING:
            return Verdict.BUSY
        # An unknown user takes as long as a known one.
        compared = hashed or _hash_of_nobody(users)
        self._waiting += 1
        try:
            if self._limiter is None:  # it belongs to the event loop
                self._limiter = CapacityLimiter(MOST_AT_ONCE)
            right = await to_thread.run_sync(_is, password, compared, limiter=self._limiter)
        finally:
            self._waiting -= 1
        if not right or hashed is None:
            return Verdict.WRONG
        self._remember(digest)
        return Verdict.RIGHT

    def _digest(self, name: bytes, hashed: bytes, password: bytes) -> bytes:
        """Return what stands for a right password, until its hash changes."""
        return hmac.digest(self._key, b"\0".join((name, hashed, password)), hashlib.sha256)

    def _remember(self, digest: bytes) -> None:
        self._verified[digest] = None
        if len(self._verified) > _MOST_REMEMBERED:
            self._verified.popitem(last=False)


def _is(password: bytes, hashed: bytes) -> bool:
    if len(password) > _LONGEST_PASSWORD:
        bcrypt.checkpw(b"", hashed)  # as long as any other
        return False
    return bcrypt.checkpw(password, hashed)


def _hash_of_nobody(users: Mapping[str, bytes]) -> bytes:
    """Return a hash of no password that takes as long as that of the dearest user."""
    cost = max(hashed.split(b"$")[2] for hashed in users.values())
    return b"$2b$%s$%s" % (cost, _NO_SALT_NO_HASH.encode())
