"""Hides our credentials in what a server sends, and in URLs."""

import base64
import html
import json
import threading
from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import quote, quote_plus, urlsplit, urlunsplit

from autoscaler.core.text import printable

_HIDDEN = "<hidden>"
_REMEMBERED = 3
"""How many tokens that were used last: an answer may repeat one that was just replaced."""
_LONG = 16
"""No name, label or number equals a secret of this length by chance."""
_SHORTEST_DERIVED = 6
"""A shorter encoded form would blank out innocent words."""
# As Go's html/template and encoding/json, and Java's Gson, write them; Python's html has others.
_GO_HTML = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;", "+": "&#43;"}
)
_GO_JSON = str.maketrans({"&": "\\u0026", "<": "\\u003c", ">": "\\u003e"})
_GSON = _GO_JSON | str.maketrans({"'": "\\u0027", "=": "\\u003d"})


class Redaction:
    """Replaces secrets by a placeholder, in every form in which they may come back.

    Plain, in base64, escaped for a URL, a form, HTML or JSON, or in several of these with JSON
    last.  To be applied before a text is cut: half a secret is not found any more.
    """

    def __init__(self, secrets: Iterable[str] = (), *, shortest: int = 1) -> None:
        """Hide all secrets of at least ``shortest`` characters."""
        chosen = {secret for secret in secrets if len(secret) >= shortest}
        forms = {form for secret in chosen for form in _forms(secret)}
        # The longest first: one secret may be a part of another.
        self._texts = tuple(sorted(forms, key=len, reverse=True))
        self._bodies = tuple(dict.fromkeys(one for form in self._texts for one in _encoded(form)))

    def __repr__(self) -> str:
        return "Redaction(...)"

    def text(self, text: str) -> str:
        """Return a text without the secrets."""
        for form in self._texts:
            text = text.replace(form, _HIDDEN)
        return text

    def body(self, body: bytes) -> bytes:
        """Return a body without the secrets, in UTF-8 or Latin-1."""
        for form in self._bodies:
            body = body.replace(form, _HIDDEN.encode())
        return body


class Redactor:
    """Hides what one client sends: the credentials of its last requests, and fixed secrets.

    Thread-safe.
    """

    def __init__(self, fixed: Iterable[str] = ()) -> None:
        self._fixed = tuple(fixed)
        self._lock = threading.Lock()
        self._recent: deque[str] = deque(maxlen=_REMEMBERED)
        self._in_texts = Redaction(self._fixed)
        self._in_data = Redaction()

    def __repr__(self) -> str:
        return "Redactor(...)"

    def remember(self, authorization: str | None) -> None:
        """Hide the Authorization header of a request from now on; called before it is sent."""
        if authorization is None or authorization in self._recent:
            return
        with self._lock:
            self._recent.append(authorization)
            own = [secret for one in self._recent for secret in credentials_of(one)]
            self._in_texts = Redaction((*own, *self._fixed))
            self._in_data = Redaction(own, shortest=_LONG)

    def also(self, *secrets: str) -> "Redactor":
        """Return one for a single request that hides these as well, as it would credentials."""
        one = Redactor(self._fixed)
        one._in_texts = Redaction((*secrets, *self._fixed))
        one._in_data = Redaction(secrets, shortest=_LONG)
        return one

    def line(self, text: str, limit: int) -> str:
        """Return a server's text without secrets, as one line of at most ``limit`` characters."""
        return printable(self._in_texts.text(text), limit)

    def error_body(self, body: bytes) -> bytes:
        """Return a body that becomes nothing but a message, without any secret."""
        return self._in_texts.body(body)

    def data(self, body: bytes) -> bytes:
        """Return a body that holds data, without credentials of at least 16 characters.

        A short password, or a tenant in a header, may also be the name of a workload.
        """
        return self._in_data.body(body)


def without_secrets(url: str) -> str:
    """Return a URL's scheme, host, port and path: no user, password, parameters or fragment.

    A URL without a host may be a path.  Empty for what is no URL.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        # The text of the error quotes the URL.
        return ""
    shown = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    return shown.rstrip("/") if parts.netloc else shown


def credentials_of(authorization: str) -> tuple[str, ...]:
    """Return the secrets of an Authorization header: the token, or the pair and the password."""
    scheme, _, value = authorization.partition(" ")
    value = value.strip()
    if scheme.lower() != "basic":
        return (value or scheme,)
    try:
        pair = base64.b64decode(value, validate=True).decode()
    except ValueError:
        return (value,)
    password = pair.partition(":")[2]
    return (value, pair, password) if password else (value,)


def _encoded(form: str) -> Iterable[bytes]:
    yield form.encode(errors="replace")
    if not form.isascii():
        yield form.encode("latin-1", errors="replace")


@lru_cache(maxsize=64)
def _forms(secret: str) -> frozenset[str]:
    """Return all forms of a secret."""
    escaped = {secret, html.escape(secret), secret.translate(_GO_HTML)}
    for percent in (quote(secret, safe="", errors="replace"), quote(secret, errors="replace")):
        escaped |= {percent, _lower(percent)}
    escaped |= {form.replace("%20", "+") for form in escaped if "%20" in form}
    escaped.add(quote_plus(secret, errors="replace"))
    escaped |= {html.escape(form) for form in escaped}
    escaped |= _base64(secret)
    for form in tuple(escaped):
        escaped |= _json(form)
    return frozenset(form for form in escaped if form == secret or len(form) >= _SHORTEST_DERIVED)


def _json(form: str) -> set[str]:
    """Return the forms of a text inside a JSON string."""
    plain = {json.dumps(form)[1:-1], json.dumps(form, ensure_ascii=False)[1:-1]}
    escaped = {one.translate(of) for one in plain for of in (_GO_JSON, _GSON)}
    return {*plain, *escaped, *(one.replace("/", "\\/") for one in plain)}


def _base64(secret: str) -> set[str]:
    """Return the base64 forms of a secret, alone and at any offset inside what is encoded.

    Characters that also depend on the text before and after it are left out.
    """
    raw = secret.encode(errors="replace")
    forms = {base64.b64encode(raw).decode()}
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        begin = (before * 8 + 5) // 6
        forms.add(encoded[begin : (before + len(raw)) * 8 // 6])
    return forms | {form.replace("+", "-").replace("/", "_") for form in forms}


def _lower(percent: str) -> str:
    """Return a percent-encoded text with its hexadecimal digits in lower case."""
    head, *rest = percent.split("%")
    return "%".join([head, *(part[:2].lower() + part[2:] for part in rest)])
