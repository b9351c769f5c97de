"""The addresses that are listened on: metrics and probes, the pages and the API, or both at one."""

import ssl
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from autoscaler.config import Address, Config
from autoscaler.config.web_files import WebFileError, files_of, tls_context
from autoscaler.config.web_settings import WebSettings, WebTls
from autoscaler.daemon.announcements import Announcements
from autoscaler.daemon.exposition.access import Access, Guarded
from autoscaler.daemon.exposition.application import application
from autoscaler.daemon.exposition.credentials import Credentials
from autoscaler.daemon.exposition.listener import Listener, ListenError, Tls
from autoscaler.daemon.exposition.rotating import Rotating
from autoscaler.daemon.exposition.site import Site

_METRICS, _PAGES = "metrics and health", "pages and API"


def open_listeners(
    config: Config,
    site: Site,
    routes: Sequence[BaseRoute],
    announcements: Announcements,
    stack: ExitStack,
) -> None:
    """Listen where the configuration says; ``routes`` are those of the pages and the API.

    Raises ListenError where an address cannot be listened on, or a file of `web` cannot be used.
    """
    opening = _Opening(announcements, stack)
    address = config.web_listen
    if config.web.listen is not None and config.listen is not None:
        metrics = application(site.open_page, announcements.fault)
        opening.listen(config.listen, metrics, _METRICS)
    if address is not None:
        app = application(site.page, announcements.fault, routes)
        opening.listen_guarded(address, app, config.web)


class _Opening:
    def __init__(self, announcements: Announcements, stack: ExitStack) -> None:
        self._announcements = announcements
        self._stack = stack

    def listen_guarded(self, address: Address, app: ASGIApp, web: WebSettings) -> None:
        """Serve the pages and the API to whom `web` permits."""
        try:
            tls, guarded = self._tls(web), Guarded(app, self._access(web))
        except WebFileError as error:
            raise ListenError(f"cannot listen on {address}: {error}") from None
        except OSError as error:
            reason = f"{error.filename} cannot be read: {error.strerror}"
            raise ListenError(f"cannot listen on {address}: {reason}") from None
        if web.listen is None:
            self.listen(address, guarded, f"{_METRICS}, {_PAGES}", tls)
        else:
            self.listen(address, guarded, _PAGES, tls, "web.listen")

    def listen(
        self,
        address: Address,
        app: ASGIApp,
        what: str,
        tls: Tls | None = None,
        setting: str = "listen",
    ) -> None:
        """Serve an application until the stack is closed."""
        fault = self._announcements.fault
        listener = Listener(address.host, address.port, app, fault, tls=tls, setting=setting)
        self._stack.enter_context(listener)
        scheme = "http" if tls is None else "https"
        self._announcements.listening(replace(address, port=listener.port), scheme, what)

    def _access(self, web: WebSettings) -> Access:
        told = self._announcements.web_file_changed
        credentials = None if web.auth is None else Credentials(web.auth, told)
        failed = self._announcements.sign_in_failed
        return Access(credentials, web.needs_certificate, web.listen is None, failed)

    def _tls(self, web: WebSettings) -> Tls | None:
        if web.tls is None:
            return None
        contexts = tls_contexts(web.tls, self._announcements.web_file_changed)
        return Tls(contexts.current, partial(self._announcements.sign_in_failed, "certificate"))


def tls_contexts(tls: WebTls, told: Callable[[bool, str], None]) -> Rotating[ssl.SSLContext]:
    """Return the TLS of the files as they are at each handshake; ``told`` is as for `Rotating`."""
    return Rotating("web.tls", files_of(tls), partial(tls_context, tls), told)
