"""Who leads which cluster, as the pages and the API tell it, and where they link to."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.config.shards import owner
from autoscaler.kubernetes.election import ClusterLeader
from autoscaler.web.site import Views
from tests.core.builders import values
from tests.narrowing import assert_parts
from tests.telemetry.results import result_of, target_of
from tests.web.api.serving import asking
from tests.web.pages.reading import ask, views_of

CLUSTERS = ("eu", "us", "ap")
HOST = "autoscaler-1.autoscaler:9191"
URL = f"http://{HOST}"
SHARED = (
    ClusterLeader("eu", leading=True, holder="autoscaler-0_1f"),
    ClusterLeader("us", leading=False, holder="autoscaler-1_2e", url=f"{URL}/"),
    ClusterLeader("ap", leading=False),
)
STANDBY = tuple(replace(leader, leading=False) for leader in SHARED)
WEB = "shop/Deployment/web"
EVERY_PAGE = ("/", "/health", f"/targets/{WEB}")


def views(
    folder: Path, leaders: Sequence[ClusterLeader] | None, names: Sequence[str] = CLUSTERS
) -> Views:
    """Return the views of a daemon that has one target in each cluster."""
    results = [result_of(replace(target_of("web"), cluster=name), values(90)) for name in names]
    clusters = [{"name": name, "context": name} for name in names if name]
    return views_of(
        folder,
        results,
        settings={"clusters": clusters} if clusters else {},
        leaders=None if leaders is None else tuple(leaders),
    )


def notices(shown: Views, path: str) -> str:
    return ask(shown, path).page.by_id("notices").words


def row_of(shown: Views, path: str, cluster: str) -> str:
    rows = (row.words for row in ask(shown, path).page.find("tr"))
    (words,) = (row for row in rows if row.startswith(f"{cluster} "))
    return words


def test_the_tables_of_health_and_fleet_link_each_cluster_to_its_leader(tmp_path: Path) -> None:
    shown = views(tmp_path, SHARED)
    for path, own in (("/", "this process"), ("/health", "this process autoscaler-0_1f")):
        assert row_of(shown, path, "eu").endswith(own)
        assert row_of(shown, path, "us").endswith(f"autoscaler-1_2e at {HOST}")
        assert row_of(shown, path, "ap").endswith("no known leader")
        assert URL in ask(shown, path).page.links()
        assert notices(shown, path) == ""
    shown = views(tmp_path, None)
    assert "Leader" not in [heading.text for heading in ask(shown, "/").page.find("th")]
    assert "no leader election" in ask(shown, "/health").text


@pytest.mark.parametrize(
    ("leaders", "paths", "parts", "link"),
    [
        (None, [f"/targets/us/{WEB}"], [], None),
        (SHARED, [f"/targets/eu/{WEB}"], [], None),
        (
            SHARED,
            [f"/targets/us/{WEB}"],
            ["us ", "standby", "autoscaler-1_2e", HOST],
            f"{URL}/targets/us/{WEB}",
        ),
        (SHARED, [f"/targets/ap/{WEB}"], ["ap ", "standby", "No leader"], None),
        (STANDBY, EVERY_PAGE, ["standby", "all clusters"], "/health#leadership"),
        ([ClusterLeader("", leading=True, holder="a_1")], EVERY_PAGE, [], None),
        ([ClusterLeader("", leading=False, holder="a_1")], EVERY_PAGE, ["standby", "a_1"], None),
        ([ClusterLeader("", leading=False)], EVERY_PAGE, ["standby", "no leader"], None),
    ],
)
def test_a_standby_names_the_leader_on_its_pages(
    tmp_path: Path,
    leaders: Sequence[ClusterLeader] | None,
    paths: Sequence[str],
    parts: list[str],
    link: str | None,
) -> None:
    only = leaders is not None and leaders[0].cluster == ""
    shown = views(tmp_path, leaders, ("",) if only else CLUSTERS)
    for path in paths:
        assert bool(notices(shown, path)) is bool(parts)
        assert_parts(notices(shown, path), *parts)
        links = ask(shown, path).page.links()
        assert link in links if link else URL not in "".join(links)
    if only:
        leadership = ask(shown, "/health").page.by_id("health").words
        assert_parts(leadership, *parts or ["process leads"])


@pytest.mark.parametrize("path", ["/health", "/fleet", "/targets"])
def test_the_api_lists_leaders_only_with_leader_election(tmp_path: Path, path: str) -> None:
    with asking(views(tmp_path, SHARED)) as client:
        assert client.json(path)["leaders"] == [
            {"cluster": "eu", "leading": True, "holder": "autoscaler-0_1f", "url": None},
            {"cluster": "us", "leading": False, "holder": "autoscaler-1_2e", "url": f"{URL}/"},
            {"cluster": "ap", "leading": False, "holder": "", "url": None},
        ]
    with asking(views(tmp_path, None)) as client:
        assert "leaders" not in client.json(path)


EVIL = "http://evil.example"
HOSTILE_URLS = [
    "javascript:alert(1)",
    "//evil.example",
    "ftp://evil.example",
    "http://",
    "http://user:secret@evil.example",
    f'{EVIL}/"><script>alert(1)</script>',
    f"{EVIL}/?a=b",
    f"{EVIL}/\n",
    f"{EVIL}/" + "x" * 300,
    "http://" + "x" * 10_000_000,
]
HOSTILE_NAME = "<b>\n\x1b[2J\u202e" + "x" * 1_000_000


@pytest.mark.parametrize("url", HOSTILE_URLS, ids=lambda url: url[:30])
def test_only_a_short_http_address_and_name_of_a_leader_are_shown(tmp_path: Path, url: str) -> None:
    """Every client that may write the Lease may write any text there."""
    hostile = ClusterLeader("us", leading=False, holder=HOSTILE_NAME, url=url)
    shown = views(tmp_path, [hostile])
    for path in ("/", "/health", f"/targets/us/{WEB}"):
        answer = ask(shown, path)
        assert all(link.startswith(("/", "?", "#")) for link in answer.page.links())
        assert "evil" not in answer.text
        assert len(answer.text) < 100_000
        assert r"<b> \x1b[2J\u202exxx" in answer.page.by_id("main").text + notices(shown, path)
        assert answer.page.find("b") == []
    with asking(shown) as client:
        (leader,) = client.json("/health")["leaders"]
    assert (leader["url"], len(leader["holder"])) == (None, 253)


def test_an_unknown_target_of_another_shard_leads_to_that_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "pod-1")
    election = {"enabled": True, "namespace": "ops", "externalUrl": "http://{hostname}.a:9191"}
    settings = {"shards": 2, "leaderElection": election}
    whole = views_of(tmp_path, [result_of(target_of("web"))], settings=settings)
    number = owner("shop", 2)
    own = whole.config().of_shard(1 - number)
    shown = replace(whole, config=lambda: own)
    path, there = "/targets/shop/Deployment/other", f"http://pod-{number}.a:9191"
    with asking(shown) as client:
        assert_parts(client.problem(path, 404)["detail"], f"shard {number} ", there)
        assert client.json("/health")["shard"]["number"] == 1 - number
    assert notices(shown, path).startswith(f"Shard {number} ")
    assert f"{there}{path}" in ask(shown, path).page.links()
    assert notices(whole, path) == ""
