"""Our credentials for the API server, read again when their source changes."""

import base64
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kubernetes.client import ApiClient, Configuration

from autoscaler import clock
from autoscaler.file_contents import MOST_OF_CREDENTIALS, read_bytes
from autoscaler.kubernetes import exec_plugin
from autoscaler.kubernetes.failures import Failure
from autoscaler.transport.credentials import SecretError, SecretFile, check_characters
from autoscaler.transport.deadline import Deadline, DeadlineExceededError, cuttable
from autoscaler.transport.redaction import Redactor, credentials_of

_FRESH_SECONDS = 1.0
_PLUGIN_FRESH_SECONDS = 10.0
_RELOAD_SECONDS = 10.0
_SHORTEST_WAIT = 0.001


@contextmanager
def quiet_client() -> Iterator[list[str]]:
    """Suppress the client's log of a kubeconfig and its exec plugin; it even configures logging."""
    root = logging.getLogger()
    handler = logging.NullHandler()  # With a handler, logging does not configure itself.

    logged: list[str] = []
    thread = threading.get_ident()

    # One for each use, since several threads may be here.
    def others(record: logging.LogRecord) -> bool:
        if record.module == "kube_config" and record.thread == thread:
            logged.append(record.getMessage())
        return record.module != "kube_config"

    root.addHandler(handler)
    root.addFilter(others)
    try:
        yield logged
    finally:
        root.removeFilter(others)
        root.removeHandler(handler)


@dataclass(frozen=True, slots=True, repr=False)
class Access:
    """What a request is sent with. It contains a credential, so it has no repr."""

    authorization: str | None
    """The header's value; None with a client certificate, or for an anonymous request."""
    client: ApiClient
    """Creates the connections: it has our certificate and the trusted CAs."""
    impersonation: tuple[tuple[str, str], ...] = ()
    """The impersonation headers, if any."""


class Credentials:
    """The credentials of requests, which wait for them until their deadlines at most.

    A token file is read again every second. When the server rejects us, or we its certificate,
    ``reload`` reads the whole configuration again, at most every 10 s; new certificates replace the
    connections. The URL of the server, and whether its certificate is verified, never change. An
    exec plugin ``takes_long``: it runs again five minutes before its token expires, on its own
    thread, while requests continue with the last token; an ``unread`` one runs with the first
    request. A token that no header can contain is a Failure that names its file or ``origin``: the
    HTTP library would quote it.
    """

    def __init__(
        self,
        configuration: Configuration,
        token_file: Path | None,
        reload: Callable[[], Configuration | str],
        origin: str,
        *,
        takes_long: bool = False,
        unread: bool = False,
    ) -> None:
        self._configuration = configuration
        self._token_file = token_file
        self._secret = None if token_file is None else SecretFile("token", token_file)
        self._reload = reload
        self._origin = origin
        self._takes_long = takes_long
        self._busy = threading.Lock()
        self._plugin = Deadline(1, name="credentials")
        self._client = _client(configuration)
        self._connection_key = _connection_key(configuration)
        self.redactor = Redactor(_fixed_secrets(configuration))
        """Redacts what requests were sent with."""
        self.fault = ""
        """Why the configuration could not be read again."""
        self._reload_from = float("-inf")
        self._known: Access | Failure = Failure(f"the credentials of {origin} are not read yet")
        self._fresh_until = float("-inf")
        self._unread = unread
        if unread:
            why = "its exec plugin failed, or takes long"
            self._known = Failure(f"{origin} has given no credentials yet: {why}", transient=True)
        elif takes_long:
            # The plugin has just run; a file is read when it is needed.
            self._set(self._authorization())

    def __repr__(self) -> str:
        return "Credentials(...)"

    @property
    def trusted(self) -> tuple[object, ...]:
        """The CA of the server, and the path to the server."""
        file, server = self._configuration.ssl_ca_cert, self._configuration.tls_server_name
        return _content(Path(file)) if file else b"", server, self._configuration.proxy

    def close(self) -> None:
        """Close the idle connections."""
        self._client.close()  # type: ignore[no-untyped-call] # the client is half typed

    def access(self, deadline: float) -> Access | Failure:
        """Return what to send a request with."""
        if clock.monotonic() >= self._fresh_until:
            goes_on = self._takes_long and isinstance(self._known, Access)
            self._do(self._refresh_if_old, clock.monotonic() if goes_on else deadline)
        return self._known

    def renewed(self, rejected: Access, deadline: float) -> Access | Failure | None:
        """Return other credentials than the rejected ones; None if no others arrive in time."""
        if self._known == rejected:
            self._do(partial(self._replace, rejected), deadline)
        return None if self._known == rejected else self._known

    def _do(self, work: Callable[[], None], deadline: float) -> None:
        """Run work for one thread at a time, and wait for its end until the deadline."""
        left = deadline - clock.monotonic()
        if self._takes_long:
            with suppress(DeadlineExceededError):
                self._plugin.run(max(_SHORTEST_WAIT, left), work)
        elif self._busy.acquire(timeout=max(0.0, left)):
            try:
                work()
            finally:
                self._busy.release()

    def _refresh_if_old(self) -> None:
        if clock.monotonic() >= self._fresh_until:
            self._refresh()

    def _replace(self, rejected: Access) -> None:
        if self._known == rejected and not self._takes_long:
            self._refresh()
        if self._known == rejected and clock.monotonic() >= self._reload_from:
            self._reload_from = clock.monotonic() + _RELOAD_SECONDS
            self._load_again()

    def _load_again(self) -> None:
        configuration, before = self._reload(), self._configuration
        self.fault = configuration if isinstance(configuration, str) else ""
        if isinstance(configuration, str):
            if self._unread:
                self._known = Failure(configuration, transient=True)
            return
        if configuration.host != before.host:
            return
        if before.verify_ssl and not configuration.verify_ssl:
            # Only a restart changes that, with a warning.
            return
        self._configuration, self._unread = configuration, False
        key = _connection_key(configuration)
        if key != self._connection_key:
            self._connection_key = key
            self.close()
            self._client = _client(configuration)
        self._set(self._authorization())

    def _set(self, authorization: str | Failure | None) -> None:
        if isinstance(authorization, Failure):
            self._known = authorization
        else:
            self.redactor.remember(authorization)
            impersonation = getattr(self._configuration, "impersonation", ())
            self._known = Access(authorization, self._client, impersonation)
        fresh = _PLUGIN_FRESH_SECONDS if self._takes_long else _FRESH_SECONDS
        self._fresh_until = clock.monotonic() + fresh

    def _refresh(self) -> None:
        """Read the token file, or run the plugin if the client finds its token expired."""
        if self._unread:
            self._load_again()
            self._fresh_until = clock.monotonic() + _PLUGIN_FRESH_SECONDS
            return
        hook: Callable[[Configuration], None] | None = self._configuration.refresh_api_key_hook
        if hook is not None and self._token_file is None:
            # If it fails, with any exception of an auth provider's library, the last token stays in
            # use; the server rejects an expired one with a 401.
            with exec_plugin.AT_ONCE, quiet_client(), suppress(Exception):
                hook(self._configuration)
        self._set(self._authorization())

    def _authorization(self) -> str | Failure | None:
        try:
            if self._secret is not None:
                return f"Bearer {self._secret.read()}"
            key = self._configuration.api_key.get("BearerToken")
            if key is None:
                return None
            header = str(key).strip()
            check_characters("token", f"the token of {self._origin}", header)
        except SecretError as error:
            return Failure(str(error))
        return header


def _client(configuration: Configuration) -> ApiClient:
    """Return the official client, with connections that a Deadline can cut."""
    client = ApiClient(configuration)
    manager = client.rest_client.pool_manager
    manager.pool_classes_by_scheme = cuttable(manager.pool_classes_by_scheme)
    return client


def _fixed_secrets(configuration: Configuration) -> tuple[str, ...]:
    """Return the users and passwords of URLs, which no file or plugin replaces."""
    secrets: list[str] = []
    for value in (configuration.proxy_headers or {}).values():
        secrets += credentials_of(value)
    for url in (configuration.host, configuration.proxy):
        parts = urlsplit(url or "")
        if parts.password:
            password = unquote(parts.password)
            pair = f"{unquote(parts.username or '')}:{password}"
            secrets += (base64.b64encode(pair.encode()).decode(), pair, password)
    return tuple(secrets)


def _connection_key(configuration: Configuration) -> tuple[object, ...]:
    """Return what connections depend on: certificates (name, content), server name, proxy."""
    files = (configuration.cert_file, configuration.key_file, configuration.ssl_ca_cert)
    contents = (_content(Path(file)) if file else b"" for file in files)
    return (*files, *contents, configuration.tls_server_name, configuration.proxy)


def _content(path: Path) -> bytes:
    try:
        return read_bytes(path, MOST_OF_CREDENTIALS)
    except OSError:
        return b""
