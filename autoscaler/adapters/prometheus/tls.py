"""The connections to a server, with TLS as the options say, from files that may be rotated."""

import ipaddress
import ssl
import threading
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from re import escape
from typing import Any

import urllib3.exceptions
from requests.adapters import HTTPAdapter
from requests.utils import get_environ_proxies

from autoscaler.adapters.prometheus.failures import QueryError
from autoscaler.adapters.prometheus.options import Endpoint
from autoscaler.transport.deadline import POOLS

# As many as ask at once: a sync asks from up to 16 threads.
POOL_SIZE = 16


class ConnectionPool(HTTPAdapter):
    """The kept-alive connections to one server, with one TLS context for all of them.

    requests would add its own bundle of authorities to the context, even where the user names the
    only one to trust; and it cannot verify another name than the URL's.
    """

    def __init__(self, context: ssl.SSLContext | None, server_name: str | None) -> None:
        self._tls: dict[str, object] = {}
        if context is not None:
            self._tls["ssl_context"] = context
        if server_name is not None:
            self._tls["server_hostname"] = server_name
        super().__init__(pool_connections=1, pool_maxsize=POOL_SIZE)

    def init_poolmanager(
        self,
        connections: int,
        maxsize: int,
        block: bool = False,  # noqa: FBT001, FBT002 - the signature of requests
        **pool_kwargs: Any,
    ) -> None:
        """Make direct connections with our TLS context."""
        super().init_poolmanager(connections, maxsize, block, **pool_kwargs, **self._tls)
        self.poolmanager.pool_classes_by_scheme = POOLS

    def proxy_manager_for(
        self,
        proxy: str,
        **proxy_kwargs: Any,
    ) -> Any:
        """Make connections through a proxy with our TLS context."""
        manager = super().proxy_manager_for(proxy, **proxy_kwargs, **self._tls)
        manager.pool_classes_by_scheme = POOLS
        return manager

    def cert_verify(self, conn: object, url: object, verify: object, cert: object) -> None:
        """Leave the context as it is."""


class ConnectionPools:
    """Gives the connection pool for the TLS files as they are now; thread-safe."""

    def __init__(self, options: Endpoint) -> None:
        self._options = options
        self._files = {
            "CA file": options.ca_file,
            "certificate file": options.cert_file,
            "key file": options.key_file,
        }
        self._lock = threading.Lock()
        self._pool: ConnectionPool | None = None
        self._seen: object = None
        if options.uses_tls and options.insecure_skip_verify:
            # The operator chose it; a Python warning at every connection would add nothing.
            warnings.filterwarnings(
                "ignore",
                message=f"Unverified HTTPS request is being made to host '{escape(options.host)}'",
                category=urllib3.exceptions.InsecureRequestWarning,
            )

    def current(self) -> ConnectionPool:
        """Return the pool; raises QueryError that names a TLS file which cannot be used."""
        if not self._options.uses_tls:
            return self._pool_for(None)
        stamps = {name: _stamp(name, path) for name, path in self._files.items()}
        return self._pool_for(stamps | {"system": _system_stamp()})

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            if self._pool is not None:
                self._pool.close()

    def _pool_for(self, stamps: Mapping[str, object] | None) -> ConnectionPool:
        with self._lock:
            if self._pool is None or stamps != self._seen:
                context = None if stamps is None else tls_context(self._options)
                if self._pool is not None:
                    self._pool.close()
                self._pool = ConnectionPool(context, self._options.server_name)
                self._seen = stamps
            return self._pool


def proxies_for(options: Endpoint) -> dict[str, str]:
    """Return the proxies of the environment; none for a loopback address."""
    try:
        local = ipaddress.ip_address(options.host).is_loopback
    except ValueError:
        local = options.host == "localhost"
    return {} if local else get_environ_proxies(options.url)


def tls_context(options: Endpoint) -> ssl.SSLContext:
    """Return the TLS context of the options.

    Without a CA file the system's authorities are trusted (SSL_CERT_FILE and SSL_CERT_DIR say
    where they are), with one only those in it, as curl and the tools of Prometheus do.
    """
    context = ssl.create_default_context()
    if options.ca_file:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _load("CA file", options.ca_file, lambda: context.load_verify_locations(options.ca_file))
    # Python 3.13 asks of private authorities what no Go program does; all versions do the same.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if options.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if options.cert_file:
        # Without a password OpenSSL would ask the terminal for that of an encrypted key.
        _load(
            "client certificate",
            f"{options.cert_file} with key {options.key_file or options.cert_file}",
            lambda: context.load_cert_chain(
                str(options.cert_file), options.key_file, password=lambda: ""
            ),
        )
    return context


def _load(what: str, name: str, load: Callable[[], None]) -> None:
    try:
        load()
    except ssl.SSLError as error:
        reason = (error.reason or "no PEM, or encrypted").replace("_", " ")
        raise QueryError(f"the {what} {name} cannot be used: {reason.lower()}") from None
    except OSError as error:
        raise QueryError(f"the {what} {name} cannot be read: {error.strerror}") from None


def _system_stamp() -> tuple[int, int, int] | None:
    """Stamp the file of the system's authorities, which a TLS context reads once.

    A folder of them is read at each handshake.
    """
    path = ssl.get_default_verify_paths().cafile  # nothing where there is no such file
    try:
        return _stamp("file of authorities", path) if path else None
    except QueryError:
        return None  # gone since


def _stamp(what: str, path: str | None) -> tuple[int, int, int] | None:
    if path is None:
        return None
    try:
        status = Path(path).stat()
    except OSError as error:
        raise QueryError(f"the {what} {path} cannot be read: {error.strerror}") from None
    return status.st_mtime_ns, status.st_ino, status.st_size
