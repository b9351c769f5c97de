"""The Authorization header, read again as its source rotates."""

import threading
from collections.abc import Callable
from pathlib import Path

from kubernetes.client import Configuration
from kubernetes.config.config_exception import ConfigException

from autoscaler import clock

_FRESH_SECONDS = 1.0
_RELOAD_SECONDS = 10.0


class Credentials:
    """What a request says about who we are.

    A token file (in a cluster, or `tokenFile` of a kubeconfig, which the client reads only once)
    is read again every second.  An exec plugin runs again when its token expires, which the
    client sees to.  When the server rejects us, ``reload`` reads the whole configuration again,
    at most every 10 s.  One thread at a time does any of it.
    """

    def __init__(
        self,
        configuration: Configuration,
        token_file: Path | None,
        reload: Callable[[], Configuration | None],
    ) -> None:
        self._configuration = configuration
        self._token_file = token_file
        self._reload = reload
        self._lock = threading.Lock()
        self._value: str | None = None
        self._fresh_until = float("-inf")
        self._reload_from = float("-inf")

    def __repr__(self) -> str:
        return "Credentials(...)"

    def authorization(self) -> str | None:
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
        try:
            self._value = self._read()
        except (OSError, ValueError, ConfigException):
            # Half-way through a rotation the file may be gone or empty: the last token stands,
            # and should it be no good, the server's 401 says so.
            return

    def _read(self) -> str | None:
        if self._token_file is None:
            key = self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
            return None if key is None else str(key).strip()
        token = self._token_file.read_text(encoding="utf-8").strip()
        return f"Bearer {token}" if token else self._value
