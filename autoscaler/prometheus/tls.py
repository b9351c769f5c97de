"""Connections to a server, with TLS as configured, from files that may be rotated."""

import ssl
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from re import escape
from typing import Any
from urllib.parse import urlsplit

import urllib3
from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter
from requests.utils import get_environ_proxies, select_proxy

from autoscaler.config.fields import is_loopback
from autoscaler.config.prometheus_connection import Tls
from autoscaler.file_contents import refuse_other_than_file, stamp_of
from autoscaler.prometheus.answers import QueryError
from autoscaler.transport.deadline import POOLS
from autoscaler.transport.network_errors import proxy_url

# The number of threads that ask at the same time: up to 16 in a sync.
POOL_SIZE = 16


class ConnectionPool(HTTPAdapter):
    """Connections to one server with one TLS context, to which requests adds no CAs."""

    def __init__(self, context: ssl.SSLContext | None, server_name: str | None) -> None:
        tls = {"ssl_context": context, "server_hostname": server_name}
        self._tls = {name: value for name, value in tls.items() if value is not None}
        super().__init__(pool_connections=1, pool_maxsize=POOL_SIZE)

    def init_poolmanager(
        self,
        connections: int,
        maxsize: int,
        block: bool = False,  # noqa: FBT001, FBT002 - the signature of requests
        **pool_kwargs: Any,
    ) -> None:
        """Create direct connections with this TLS context."""
        super().init_poolmanager(connections, maxsize, block, **pool_kwargs, **self._tls)
        self.poolmanager.pool_classes_by_scheme = POOLS

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        """Create connections through a proxy with this TLS context."""
        manager = super().proxy_manager_for(proxy, **proxy_kwargs, **self._tls)
        manager.pool_classes_by_scheme = POOLS
        return manager

    def cert_verify(self, conn: object, url: object, verify: object, cert: object) -> None:
        """Leave the context unchanged."""


class ConnectionPools:
    """Returns the connection pool for the current TLS files. Thread-safe."""

    def __init__(self, url: str, tls: Tls) -> None:
        self._url, self._tls = url, tls
        self.host = urlsplit(url).hostname or ""
        self._uses_tls = urlsplit(url).scheme == "https"
        self._files = {"CA": tls.ca_file, "certificate": tls.cert_file, "key": tls.key_file}
        self._lock = threading.Lock()
        self._pool: ConnectionPool | None = None
        self._seen: object = None
        if self._uses_tls and tls.insecure_skip_verify:
            # The operator chose it; a warning at every connection would add nothing.
            warnings.filterwarnings(
                "ignore",
                message=f"Unverified HTTPS request is being made to host '{escape(self.host)}'",
                category=urllib3.exceptions.InsecureRequestWarning,
            )

    def current(self) -> ConnectionPool:
        """Return the pool; raises QueryError with the name of a TLS file that cannot be used."""
        stamps = None
        if self._uses_tls:
            stamps = [_stamp(f"{name} file", path) for name, path in self._files.items()]
            stamps.append(_system_stamp())
        with self._lock:
            if self._pool is None or stamps != self._seen:
                context = None if stamps is None else tls_context(self._tls)
                if self._pool is not None:
                    self._pool.close()
                self._pool = ConnectionPool(context, self._tls.server_name)
                self._seen = stamps
            return self._pool

    def sender(self, seconds: float) -> Callable[[PreparedRequest], Response]:
        """Return a function that sends a request within its time and follows no redirects.

        Raises QueryError as `current` does, and for a proxy that cannot be used.
        """
        return partial(
            self.current().send,
            stream=True,
            timeout=urllib3.Timeout(total=seconds),  # type: ignore[arg-type]  # handed on
            verify=not self._tls.insecure_skip_verify,
            proxies=self._proxies(),
        )

    def _proxies(self) -> dict[str, str]:
        """Return the proxies of the environment; none for a loopback address. Raises QueryError."""
        proxies = {} if is_loopback(self.host) else get_environ_proxies(self._url)
        proxy = select_proxy(self._url, proxies)
        try:
            return {urlsplit(self._url).scheme: proxy_url(proxy)} if proxy else {}
        except ValueError as error:
            named = "the proxy of the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY)"
            raise QueryError(f"{named} for {self.host} cannot be used: {error}") from None

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            if self._pool is not None:
                self._pool.close()


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return the TLS context of the settings; without a CA file the system's CAs are trusted."""
    context = ssl.create_default_context()
    if tls.ca_file is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        with _query_errors("CA file", tls.ca_file):
            context.load_verify_locations(tls.ca_file)
    # Python 3.13 is stricter with private CAs than Go programs are; all versions behave the same.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if tls.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert_file is not None:
        certificate, key = tls.cert_file, tls.key_file or tls.cert_file
        # Without a password OpenSSL would ask for one on the terminal.
        with _query_errors("client certificate", f"{certificate} with key {key}"):
            context.load_cert_chain(certificate, key, password=lambda: "")
    return context


@contextmanager
def _query_errors(what: str, name: object) -> Iterator[None]:
    """Raise QueryError for a file that cannot be used."""
    try:
        yield
    except ssl.SSLError as error:
        reason = (error.reason or "no PEM, or encrypted").replace("_", " ")
        raise QueryError(f"the {what} {name} cannot be used: {reason.lower()}") from None
    except OSError as error:
        raise QueryError(f"the {what} {name} cannot be read: {error.strerror}") from None


def _system_stamp() -> tuple[int, ...] | None:
    """Return the stamp of the system's CA file; a folder of them is read at each handshake."""
    path = ssl.get_default_verify_paths().cafile  # nothing where there is no such file
    try:
        return _stamp("file of authorities", Path(path)) if path else None
    except QueryError:
        return None  # gone since


def _stamp(what: str, path: Path | None) -> tuple[int, ...] | None:
    if path is None:
        return None
    with _query_errors(what, path):
        status = path.stat()
        refuse_other_than_file(path, status.st_mode)
        return stamp_of(status)
