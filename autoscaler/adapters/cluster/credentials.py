"""The Authorization header, read again as its source rotates."""

import threading
from collections.abc import Callable
from pathlib import Path

from kubernetes.client import Configuration
from kubernetes.config.config_exception import ConfigException

from autoscaler import clock
from autoscaler.adapters.cluster.client_log import quiet_client
from autoscaler.adapters.cluster.failures import Failure

_FRESH_SECONDS = 1.0
_RELOAD_SECONDS = 10.0


class Credentials:
    """What a request says about who we are.

    A token file (in a cluster, or `tokenFile` of a kubeconfig, which the client reads only once)
    is read again every second.  An exec plugin runs again when its token expires, which the
    client sees to.  When the server rejects us, ``reload`` reads the whole configuration again,
    at most every 10 s.  One thread at a time does any of it.  A token that no header can carry
    is a Failure here, which names its file or ``origin``: the HTTP library would quote it.
    """

    def __init__(
        self,
        configuration: Configuration,
        token_file: Path | None,
        reload: Callable[[], Configuration | None],
        origin: str,
    ) -> None:
        self._configuration = configuration
        self._token_file = token_file
        self._reload = reload
        self._origin = origin
        self._lock = threading.Lock()
        self._value: str | Failure | None = None
        self._fresh_until = float("-inf")
        self._reload_from = float("-inf")

    def __repr__(self) -> str:
        return "Credentials(...)"

    def authorization(self) -> str | Failure | None:
        """Return the header's value; None where the client certificate or nobody speaks for us."""
        with self._lock:
            if clock.monotonic() >= self._fresh_until:
                self._refresh()
            return self._value

    def renewed(self, rejected: str | None) -> bool:
        """Look for other credentials than those rejected; tell whether there are any."""
        with self._lock:
            if self._value == rejected:
                self._refresh()
            if self._value == rejected and clock.monotonic() >= self._reload_from:
                self._reload_from = clock.monotonic() + _RELOAD_SECONDS
                configuration = self._reload()
                if configuration is not None:
                    self._configuration = configuration
                    self._refresh()
            return self._value != rejected

    def _refresh(self) -> None:
        self._fresh_until = clock.monotonic() + _FRESH_SECONDS
        if self._token_file is not None:
            self._value = self._from_file(self._token_file)
            return
        try:
            with quiet_client():
                key = self._configuration.get_api_key_with_prefix(
                    "BearerToken", alias="authorization"
                )
        except (OSError, ValueError, ConfigException):
            # The last token stands, and should it be no good, the server's 401 says so.
            return
        self._value = None if key is None else _sendable(str(key).strip(), f"of {self._origin}")

    def _from_file(self, path: Path) -> str | Failure:
        try:
            token = path.read_text(encoding="utf-8").strip()
        except OSError as error:
            return self._standing(f"the token file {path} cannot be read: {error.strerror}")
        except UnicodeDecodeError:
            return Failure(f"the token file {path} is not text in UTF-8")
        if not token:
            return self._standing(f"the token file {path} is empty")
        return _sendable(f"Bearer {token}", f"in the file {path}")

    def _standing(self, fault: str) -> str | Failure:
        """Keep the last token: half-way through a rotation the file may be gone or empty.

        Should it be no good any more, the server's 401 says so.
        """
        return self._value if isinstance(self._value, str) else Failure(fault)


def _sendable(value: str, where: str) -> str | Failure:
    if value.isascii() and value.isprintable():
        return value
    return Failure(
        f"the token {where} holds characters that no token may have; "
        "right is one line of printable ASCII"
    )
