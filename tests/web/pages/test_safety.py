"""What pages never do, whatever the texts in them are."""

import json
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest

from autoscaler.core.observation import Gap, GapKind, Scale
from autoscaler.core.spec import ExternalMetric, MetricIdentifier
from autoscaler.core.target import Query
from autoscaler.telemetry.health import Component
from autoscaler.web.api.endpoints import target_list
from autoscaler.web.pages.frame import static_url, target_path
from autoscaler.web.site import Views
from tests.core.builders import average
from tests.telemetry.results import NOW, result_of, target_of
from tests.web.api.test_problems import ODD
from tests.web.pages.reading import Answer, ask, views_of
from tests.worlds.pages import fleets
from tests.worlds.record import MemoryRecord

ROOT = Path(__file__).parents[3]
HOSTILE = (*fleets.HOSTILE, "\x1b[2J\x1b[31mred", "</title></pre></bdi><b>bold", "\ud800lone")
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
EVENT = re.compile(r"on[a-z]+$")
quoted = partial(quote, safe="", errors="replace")


def hostile_views(folder: Path, text: str) -> Views:
    """Return a daemon whose every name and message is hostile."""
    metric = ExternalMetric(MetricIdentifier(text), average("30"))
    target = replace(target_of(text, metric, namespace=text), queries=(Query(text, server=text),))
    fails = result_of(target, Gap(GapKind.ERROR, text), scale=Scale(3, 3, text))
    held = result_of(target_of("by", metric), controller=text)
    views = views_of(folder, [fails, held], MemoryRecord())
    for component in Component:
        views.health.report(component, ok=False, message=text)
    return views


def pages_with(views: Views, text: str) -> list[Answer]:
    """Return the pages that show a text, which is in their addresses too."""
    path = target_path(views.states.known()[0].target.key)
    urls = ["/", "/health", path, f"{path}?part=explanation", f"/?q={quoted(text)}"]
    urls += [f"/targets/{quoted(text[:500])}/b/c", f"{path}?from={quoted(text[:200])}"]
    return [ask(views, url) for url in urls]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:24]))
def test_no_text_becomes_markup(tmp_path: Path, text: str) -> None:
    """It gives no element, attribute or address; invisible characters are written out.

    The texts of the API are short, printable and in ASCII too.
    """
    views = hostile_views(tmp_path, text)
    body = b"".join(target_list(views.states.known(), NOW))
    assert body.isascii()
    for target in json.loads(body)["targets"]:
        texts = [target[name] for name in ("target", "name", "message")]
        texts += [metric["name"] for metric in target["metrics"]]
        assert all(text.isprintable() and len(text) <= 2000 for text in texts)
    for answer in pages_with(views, text):
        page = answer.page
        assert answer.status in {200, 404}
        assert UNSEEN.search(answer.text) is None
        assert {element.tag for element in page.elements} & {"img", "b", "style", "iframe"} == set()
        for element in page.elements:
            assert not any(map(EVENT.match, element.attributes))
            assert "style" not in element.attributes
            for name in ("href", "src", "action", "data-chart"):
                address = element.attributes.get(name)
                assert address is None or re.match(r"[/?#]", address), address
                assert not (address or "").startswith("//")
        scripts = page.find("script")
        assert all(script.attributes.get("src") and script.text == "" for script in scripts)
        assert len(answer.text) < 200_000


def test_pages_are_never_stored_by_a_browser(tmp_path: Path) -> None:
    for path in ("/", "/health", "/targets/a/b/c"):
        headers = ask(views_of(tmp_path, []), path).headers
        assert headers["cache-control"] == "no-store"
        assert headers["content-type"] == "text/html; charset=utf-8"


def test_static_files_are_cached_until_their_content_changes() -> None:
    address = static_url("pages.js")
    ours, other = ask(None, address), ask(None, "/static/0000/pages.js")
    assert ours.headers["cache-control"].endswith("immutable")
    assert other.headers["cache-control"] == "no-cache"
    assert ours.sent == other.sent
    assert ours.headers["content-type"].startswith("text/javascript")
    for missing in ("nothing.js", "../pages.css", "uplot/LICENSE", ""):
        assert ask(None, f"/static/0000/{missing}").status == 404


def test_static_files_name_no_other_origin() -> None:
    for file in (ROOT / "autoscaler/web/pages").rglob("*.*"):
        if file.suffix in {".js", ".css", ".html", ".svg"} and "uplot" not in file.parts:
            text = file.read_text().replace("http://www.w3.org/2000/svg", "")
            assert re.search(r"https?://", text) is None, file
            assert re.search(r"@import|url\(", text) is None, file


@pytest.mark.slow
def test_the_wheel_has_templates_scripts_and_licences(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    shipped = set(zipfile.ZipFile(wheel).namelist())
    folder = ROOT / "autoscaler/web/pages"
    files = [file for name in ("templates", "static") for file in (folder / name).rglob("*.*")]
    assert {str(file.relative_to(ROOT)) for file in files} <= shipped
    assert "autoscaler/web/pages/static/uplot/LICENSE" in shipped


def test_no_value_in_an_address_is_a_fault(tmp_path: Path) -> None:
    views = views_of(tmp_path, [result_of(target_of("web"))], MemoryRecord())
    page = "/targets/shop/Deployment/web"
    for value in (*ODD, "99999999"):
        for name in ("page", "sort", "state", "q"):
            assert ask(views, f"/?{name}={value}").status == 200
        for name in ("from", "to", "at", "last", "part"):
            assert ask(views, f"{page}?{name}={value}").status == 200
            assert ask(views, f"{page}?part=explanation&{name}={value}").status == 200
        assert ask(views, f"{page}?from={value}&to={value}&at={value}").status == 200
