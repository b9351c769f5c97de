"""The listening addresses: metrics and probes, pages and API, or all on one."""

import ssl
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from autoscaler.config import Address, Config
from autoscaler.config.settings import WebSettings, WebTls
from autoscaler.config.web_files import WebFileError, files_of, tls_context
from autoscaler.daemon.announcements import Announcements
from autoscaler.web.access import AccessGuard
from autoscaler.web.credentials import RotatingValue, WebCredentials
from autoscaler.web.listener import Listener, ListenError, ListenerTls
from autoscaler.web.site import Site, application

_METRICS, _PAGES = "metrics and health", "pages and API"


def open_listeners(
    config: Config,
    site: Site,
    routes: Sequence[BaseRoute],
    announcements: Announcements,
    stack: ExitStack,
) -> None:
    """Listen where the configuration says; ``routes`` are of pages and API.  Raises ListenError."""
    fault, apart = announcements.fault, config.web.listen is not None

    def listen(
        address: Address,
        app: ASGIApp,
        what: str,
        tls: ListenerTls | None = None,
        setting: str = "listen",
    ) -> None:
        listener = Listener(address.host, address.port, app, fault, tls=tls, setting=setting)
        stack.enter_context(listener)
        scheme = "http" if tls is None else "https"
        announcements.listening(replace(address, port=listener.port), scheme, what)

    if apart and config.listen is not None:
        listen(config.listen, application(site.open_page, fault), _METRICS)
    address = config.web_listen
    if address is None:
        return
    try:
        tls = _tls(config.web, announcements)
        guarded = _guarded(application(site.page, fault, routes), config.web, announcements)
    except (WebFileError, OSError) as error:
        reason = str(error)
        if isinstance(error, OSError):
            reason = f"{error.filename} cannot be read: {error.strerror}"
        raise ListenError(f"cannot listen on {address}: {reason}") from None
    if apart:
        listen(address, guarded, _PAGES, tls, "web.listen")
    else:
        listen(address, guarded, f"{_METRICS}, {_PAGES}", tls)


def _guarded(app: ASGIApp, web: WebSettings, announcements: Announcements) -> AccessGuard:
    return AccessGuard(
        app,
        None if web.auth is None else WebCredentials(web.auth, announcements.web_file_changed),
        needs_certificate=web.needs_certificate,
        with_metrics=web.listen is None,
        sign_in_failed=announcements.sign_in_failed,
    )


def _tls(web: WebSettings, announcements: Announcements) -> ListenerTls | None:
    if web.tls is None:
        return None
    contexts = tls_contexts(web.tls, announcements.web_file_changed)
    return ListenerTls(contexts.current, partial(announcements.sign_in_failed, "certificate"))


def tls_contexts(tls: WebTls, told: Callable[[bool, str], None]) -> RotatingValue[ssl.SSLContext]:
    """Return the TLS context of the files, read again when they change."""
    return RotatingValue("web.tls", files_of(tls), partial(tls_context, tls), told)
