"""The common parts of all pages: frame, templates and their filters, static files."""

import hashlib
import math
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar, Generic, NamedTuple, Self, TypeVar
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.datastructures import QueryParams
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from autoscaler import __version__
from autoscaler.agreement.sentences import AGREEMENT_WORDS, percent
from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.target import TargetName
from autoscaler.core.text import duration, printable, rfc3339
from autoscaler.rendering import wording
from autoscaler.rendering.answers import LeaderState
from autoscaler.web.answering import RETRY_LATER, Page
from autoscaler.web.site import RECORD_IS_OFF, Views

NO_RECORD = f"No decisions are recorded: {RECORD_IS_OFF}."
_LONGEST_TOLD = 100


def page(
    template: str,
    views: Views | None,
    now: float,
    status: int = 200,
    key: str | None = None,
    **more: object,
) -> Page:
    """Return a page with the common frame, as of a Unix time; every text in it is escaped.

    ``views`` is None while the daemon starts; ``key`` is the shown target's, if any.
    """
    not_ok = (
        []
        if views is None
        else [component for component in views.health.components() if not component.ok]
    )
    in_shadow = views is not None and any(state.in_shadow for state in views.states.known())
    shown = {"now": now, "status": status, "not_ok": not_ok, "led_by": _led_by_others(views, key)}
    shown |= {"in_shadow": in_shadow, "key": key, **more}
    shown["other"] = None if views is None or key is None else views.config().other_shard(key)
    text = environment().get_template(template).render(shown)
    headers = {"Cache-Control": "no-store"} | (RETRY_LATER if status == 503 else {})
    body = text.encode(errors="replace")
    return Page(status, "text/html; charset=utf-8", [body], headers=headers)


def _led_by_others(views: Views | None, key: str | None) -> Sequence[LeaderState]:
    """Return the leader of the target's cluster, or of each; empty if this process leads any."""
    leaders = None if views is None else views.leader_states()
    cluster = None if key is None else TargetName.parse(key).cluster
    shown = [leader for leader in leaders or () if cluster in {None, leader.cluster}]
    return [] if any(leader.leading for leader in shown) else shown


def starting(now: float) -> Page:
    """Return the page shown while the daemon starts."""
    sentence = "It has not read its targets yet. This page shows them once it has."
    return page("message.html", None, now, 503, title="The daemon starts", sentence=sentence)


def not_found(views: Views, now: float, sentence: str, near: str, key: str | None = None) -> Page:
    """Return the page for an unknown path, which may be ``near`` the path of a target."""
    suggestions = wording.similar(near, [state.target.key for state in views.states.known()])
    more = {"title": "There is no such page", "suggestions": suggestions}
    return page("message.html", views, now, 404, key, sentence=sentence, **more)


def ignored(name: str, text: str, right: str) -> str:
    """Return the sentence about an invalid parameter of the address."""
    return f"{name}={printable(text, _LONGEST_TOLD)} is ignored: it must be {right}."


# -- templates ------------------------------------------------------------------------------------

_LONGEST_SHOWN = 160
"""The most characters of a name that are shown; its title has the rest."""
_INSTANT = re.compile(r"\b(\d{4}-\d\d-\d\dT)?\d\d:\d\d:\d\d(?:\.\d+)?Z")


@cache
def environment() -> Environment:
    """Return the environment that renders all templates."""
    made = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {"time": _time, "age": duration, "outside": _outside, "name": _name}
    made.filters |= {"sentence": _sentence, "line": _line, "shown": _plain, "instant": rfc3339}
    made.filters |= {"word": wording.state_word, "percent": _percent}
    made.filters["kind"] = AGREEMENT_WORDS.__getitem__
    made.globals |= {"static": static_url, "version": __version__, "href": target_path}
    made.globals |= {"no_record": NO_RECORD, "current": "", "suggestions": ()}
    return made


def _percent(share: float | None) -> str:
    """Format a share in percent; empty if unknown."""
    return "" if share is None else percent(share)


def target_path(key: str) -> str:
    """Return the path of a target's page."""
    parts = [quote(part, safe="", errors="replace") for part in key.split("/")]
    return f"/targets/{'/'.join(parts)}"


def _time(instant: float) -> Markup:
    """Format an instant in UTC; a script shows it in the reader's zone."""
    text = rfc3339(instant)
    return _time_element(text, f"{text[:10]} {text[11:19]}")


def _time_element(instant: str, shown: str) -> Markup:
    return Markup('<time datetime="{}">{}</time>').format(instant, shown)


def _outside(text: str) -> Markup:
    """Return a possibly foreign text; its direction cannot affect the text around it."""
    return Markup("<bdi>{}</bdi>").format(printable(text, LONGEST_SENTENCE))


def _sentence(text: str, near: float) -> Markup:
    """Return a possibly foreign sentence, with its instants as times.

    Those without a date are of the day of ``near`` in UTC, as of `rendering.wording.time_of_day`.
    """
    return _with_times(printable(text, LONGEST_SENTENCE), near)


def _line(text: str, near: float) -> Markup:
    """Return a line of an explanation likewise, with its alignment."""
    return _with_times(text if text.isprintable() else printable(text, LONGEST_SENTENCE), near)


def _with_times(text: str, near: float) -> Markup:
    day, parts, end = rfc3339(near)[:11], [], 0
    for found in _INSTANT.finditer(text):
        parts.append(escape(text[end : found.start()]))
        parts.append(_time_element(found[0] if found[1] else day + found[0], found[0]))
        end = found.end()
    return Markup("<bdi>{}</bdi>").format(Markup("").join([*parts, escape(text[end:])]))


def _plain(text: str) -> str:
    """Return a foreign name for places without markup."""
    return printable(text, _LONGEST_SHOWN)


def _name(text: str) -> Markup:
    """Return a foreign name, cut if it is very long."""
    whole, shown = printable(text, LONGEST_SENTENCE), _plain(text)
    if shown == whole:
        return _outside(shown)
    return Markup('<bdi title="{}">{}</bdi>').format(whole, shown)


# -- static files ---------------------------------------------------------------------------------

_TYPES = {
    ".svg": "image/svg+xml",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
_FOREVER = "public, max-age=31536000, immutable"


def static_url(name: str) -> str:
    """Return the URL of a file."""
    return f"/static/{_version()}/{name}"


class StaticFiles:
    """Answers below `/static`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request with the current file; clients may cache only its own version."""
        version, _, name = scope["path"].removeprefix(scope["root_path"])[1:].partition("/")
        response: Response = PlainTextResponse("there is no such file\n", 404)
        if (body := _contents().get(name)) is not None:
            kept = {"Cache-Control": _FOREVER if version == _version() else "no-cache"}
            response = Response(body, media_type=_TYPES[Path(name).suffix], headers=kept)
        await response(scope, receive, send)


@cache
def _contents() -> dict[str, bytes]:
    """Return all files, some 80 kB, by name."""
    folder = Path(__file__).parent / "static"
    files = sorted(file for file in folder.rglob("*") if file.suffix in _TYPES)
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@cache
def _version() -> str:
    """Return the hash of all files, since scripts import each other by names without a version."""
    digest = hashlib.sha256()
    for name, body in _contents().items():
        digest.update(b"%s %d " % (name.encode(), len(body)))
        digest.update(body)
    return digest.hexdigest()[:16]


# -- lists of targets -----------------------------------------------------------------------------

PAGE_SIZE = 100
_LONGEST_SEARCH = 200
_MOST_DIGITS = 8

_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class ListChoice:
    """The options of a list of targets, from its URL."""

    path: ClassVar[str] = "/"
    q: str = ""
    page: int = 1

    def link(self, **changed: object) -> str:
        """Return the URL with other options; the first page by default."""
        asked, usual = asdict(self) | {"page": 1} | changed, asdict(type(self)())
        asked["page"] = asked.pop("page")  # The last one of the address.
        query = {key: value for key, value in asked.items() if value != usual[key]}
        return f"{self.path}?{urlencode(query)}" if query else self.path

    def finds(self, key: str) -> bool:
        """Return whether a target's key has all words of the search, ignoring case."""
        return all(word in key.casefold() for word in self.q.casefold().split())

    @classmethod
    def read(
        cls, query: QueryParams, right: Mapping[str, tuple[Container[str], str]]
    ) -> tuple[Self, list[str]]:
        """Read a URL; an invalid option is ignored, and a sentence says so.

        ``right`` are the valid values of this list's keys, also in words.
        """
        page = query.get("page", "1")
        is_number = page.isascii() and page.isdecimal() and len(page) < _MOST_DIGITS
        given = {key: query[key] for key in right if query.get(key)}
        chosen = {key: value for key, value in given.items() if value in right[key][0]}
        wrong = [ignored(key, given[key], right[key][1]) for key in given if key not in chosen]
        if page and not is_number:
            wrong.append(ignored("page", page, "the number of a page"))
        search = printable(query.get("q", "").strip(), _LONGEST_SEARCH)
        return cls(search, max(1, int(page)) if is_number else 1, **chosen), wrong


class ListPage(NamedTuple, Generic[_R]):
    """A page of rows: the number of its first row, its own number, and the number of pages."""

    rows: Sequence[_R]
    first: int
    page: int
    pages: int


def part_of(rows: Sequence[_R], page: int) -> ListPage[_R]:
    """Return a page of rows, the last one if there are fewer."""
    pages = max(1, math.ceil(len(rows) / PAGE_SIZE))
    number = min(page, pages)
    begin = (number - 1) * PAGE_SIZE
    return ListPage(rows[begin : begin + PAGE_SIZE], begin + 1, number, pages)
