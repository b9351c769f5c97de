"""Pages without a browser: asked for in this process, and parsed by the standard library."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from starlette.applications import Starlette

from autoscaler.config import Config, load
from autoscaler.core.sync_result import SyncResult
from autoscaler.persistence.record import DirectoryRecord
from autoscaler.telemetry.health import Component, Health
from autoscaler.web import pages
from autoscaler.web.site import Views
from tests.telemetry.results import metrics_of
from tests.web import asgi
from tests.web.api import serving

VOID = frozenset({"meta", "link", "input", "br", "path"})


@dataclass(slots=True)
class Element:
    """An element of a page; ``text`` includes the text of all elements in it."""

    tag: str
    attributes: dict[str, str | None]
    text: str = ""

    @property
    def words(self) -> str:
        """The text on one line."""
        return " ".join(self.text.split())


class Parsed(HTMLParser):
    """The elements of a page in their order; fails where one is not closed as it was opened."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def find(self, tag: str = "", **attributes: str) -> list[Element]:
        """Return the elements of a kind with these attributes (`class_`, `data_label`)."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [
            element
            for element in self.elements
            if tag in {"", element.tag} and wanted.items() <= element.attributes.items()
        ]

    def by_id(self, name: str) -> Element:
        (element,) = self.find(id=name)
        return element

    def links(self) -> list[str]:
        return [link.attributes.get("href") or "" for link in self.find("a")]


class Answer(asgi.Answer):
    @property
    def page(self) -> Parsed:
        return Parsed(self.text)


def ask(views: Views | None, url: str, method: str = "GET", accept: str = "*/*") -> Answer:
    """Ask the pages of views; None is a daemon that starts."""
    app = Starlette(routes=pages.routes(lambda: views))
    headers = {"accept-encoding": "gzip", "accept": accept, "host": "localhost"}
    return Answer(*asyncio.run(asgi.answer_of(app, url, headers.items(), method=method)))


def names(answer: Answer) -> list[str]:
    """Return the names of the targets in a table."""
    rows = answer.page.find("th", class_="target")
    return [row.text.strip().rpartition("/")[2] for row in rows]


def views_of(
    folder: Path,
    results: Iterable[SyncResult],
    record: DirectoryRecord | None = None,
    settings: Mapping[str, object] = MappingProxyType({}),
    **more: Any,
) -> Views:
    """Return what is seen of a daemon with these results; all components are well.

    ``more`` is as for `tests.web.api.serving.views_of`.
    """
    known, health = list(results), Health()
    for component in Component:
        health.report(component, ok=True, message="it works")
    health.expect({"15.0+0.0": 15.0})
    config = config_of(folder, **settings)
    config = config.model_copy(update={"targets": tuple(facts.target for facts in known)})
    metrics = metrics_of(*known, health=health)
    return serving.views_of(metrics, health, config=config, record=record, **more)


def config_of(folder: Path, **settings: object) -> Config:
    """Return a configuration, without targets unless told."""
    file = folder / "autoscaler.yaml"
    document = {"prometheus": {"url": "http://127.0.0.1:9090"}, "targets": []} | settings
    file.write_text(yaml.safe_dump(document))
    return load(file)
