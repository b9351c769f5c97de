"""Secrets in all the forms in which a server may send them back."""

import base64
import html
import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest

from autoscaler.transport.redaction import Redactor, credentials_of

TOKEN = "eyJhbGciOi.J9+x/y=z_0-~"  # noqa: S105 - made up
PASSWORD = "p&ss <w>/r\"d'+%ü"  # noqa: S105 - made up

_GO = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;", "+": "&#43;"}
)


def _json(text: str) -> str:
    return json.dumps(text)[1:-1]


def _lower(text: str) -> str:
    return re.sub("%..", lambda found: found[0].lower(), quote(text, safe=""))


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "percent": lambda secret: quote(secret, safe=""),
    "percent but slashes": quote,
    "percent in lower case": _lower,
    "form": quote_plus,
    "HTML": html.escape,
    "HTML of Go": lambda secret: secret.translate(_GO),
    "JSON": _json,
    "JSON of Go": lambda secret: re.sub(
        "[&<>]", lambda found: f"\\u{ord(found[0]):04x}", _json(secret)
    ),
    "JSON of PHP": lambda secret: _json(secret).replace("/", "\\/"),
    "HTML in JSON": lambda secret: _json(html.escape(secret)),
    "URL in JSON": lambda secret: _json(quote_plus(secret)),
    "base64": _base64,
    "base64 within another": lambda secret: _base64(f"x{secret}y"),
    "base64 for URLs": lambda secret: base64.urlsafe_b64encode(f"xy{secret}".encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("secret", [TOKEN, PASSWORD])
def test_every_form_is_hidden(form: str, secret: str) -> None:
    """In a text and in a body, whichever way it was escaped."""
    basic = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    redactor = Redactor()
    redactor.remember(f"Bearer {TOKEN}")
    redactor.remember(f"Basic {basic}")
    sent = f"who is {FORMS[form](secret)} then"
    for shown in (redactor.line(sent, 500), redactor.error_body(sent.encode()).decode()):
        before, _, after = shown.partition("<hidden>")
        # Of base64 the characters at both ends are the neighbours', too.
        assert (before[:7], after[-5:]) == ("who is ", " then")
        assert len(before[7:]) <= 3
        assert len(after[:-5]) <= 4


def test_a_token_that_was_just_replaced_is_still_hidden() -> None:
    """An answer may repeat the one before, but not everything is remembered for ever."""
    redactor = Redactor(("fixed-secret",))
    for number in range(3):
        redactor.remember(f"Bearer token-number-{number}")
    assert redactor.line("token-number-0 token-number-2 fixed-secret", 99) == " ".join(
        ["<hidden>"] * 3
    )


def test_what_is_shown_is_cut_after_it_is_hidden() -> None:
    """The first half of a token does not remain at the end of a long text; it is one line."""
    redactor = Redactor()
    redactor.remember(f"Bearer {TOKEN}")
    shown = redactor.line("x" * 90 + TOKEN + "\x1b[2J\u202e\n", 100)
    assert shown == "x" * 90 + "<hidden>\\…"
    assert redactor.line("a\x1b[2J\u202e\r\nb", 100) == "a\\x1b[2J\\u202e b"


def test_data_keeps_what_a_workload_may_be_called() -> None:
    """A short password is not replaced in data, where it may be a name; a token is."""
    redactor = Redactor(("tenant-of-the-shop",))
    redactor.remember("Basic " + base64.b64encode(b"me:web").decode())
    redactor.remember(f"Bearer {TOKEN}")
    body = f'{{"name":"web","tenant":"tenant-of-the-shop","x":"{TOKEN}"}}'.encode()
    assert redactor.data(body) == body.replace(TOKEN.encode(), b"<hidden>")
    assert redactor.error_body(b"web, tenant-of-the-shop") == b"<hidden>, <hidden>"


def test_what_is_secret_in_a_header() -> None:
    """The token without its scheme; of a pair the password, too, unless there is none."""
    pair = base64.b64encode(b"me:pass").decode()
    assert credentials_of("Bearer abc") == ("abc",)
    assert credentials_of(f"basic {pair}") == (pair, "me:pass", "pass")
    nobody = base64.b64encode(b"me:").decode()
    assert credentials_of(f"Basic {nobody}") == (nobody,)
    assert credentials_of("Basic no base64!") == ("no base64!",)
    assert repr(Redactor(("secret",))) == "Redactor(...)"
