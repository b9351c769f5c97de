"""Who leads which cluster, as the pages and the API tell it, and where they link to."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.config.shards import owner
from autoscaler.kubernetes.election import ClusterLeader
from autoscaler.web.site import Views
from tests.core.builders import values
from tests.telemetry.results import result_of, target_of
from tests.web.api.serving import asking
from tests.web.pages.reading import ask, views_of

CLUSTERS = ("eu", "us", "ap")
HOST = "autoscaler-1.autoscaler:9191"
URL = f"http://{HOST}/"
SHARED = (
    ClusterLeader("eu", leading=True, holder="autoscaler-0_1f"),
    ClusterLeader("us", leading=False, holder="autoscaler-1_2e", url=URL),
    ClusterLeader("ap", leading=False),
)
WEB = "shop/Deployment/web"


def views(folder: Path, leaders: Sequence[ClusterLeader] | None) -> Views:
    """Return the views of a daemon that has one target in each of three clusters."""
    results = [result_of(replace(target_of("web"), cluster=name), values(90)) for name in CLUSTERS]
    clusters = [{"name": name, "context": name} for name in CLUSTERS]
    told = None if leaders is None else tuple(leaders)
    return views_of(folder, results, settings={"clusters": clusters}, leaders=told)


def notices(shown: Views, path: str) -> str:
    return " ".join(ask(shown, path).page.by_id("notices").text.split())


def row_of(shown: Views, path: str, cluster: str) -> str:
    rows = (" ".join(row.text.split()) for row in ask(shown, path).page.of("tr"))
    (found,) = (row for row in rows if row.startswith(f"{cluster} "))
    return found


def test_each_cluster_has_its_leader_in_the_tables(tmp_path: Path) -> None:
    """In that of the health and in the totals of the fleet, with a link to the leader's pages."""
    shown = views(tmp_path, SHARED)
    for path, own in (("/", "this process"), ("/health", "this process autoscaler-0_1f")):
        assert row_of(shown, path, "eu").endswith(own)
        assert row_of(shown, path, "us").endswith(f"autoscaler-1_2e at {HOST}")
        assert row_of(shown, path, "ap").endswith("nobody known")
        assert URL.rstrip("/") in ask(shown, path).page.links()
        assert notices(shown, path) == ""


def test_without_leader_election_no_leader_is_told(tmp_path: Path) -> None:
    """There is no column for it, and this process writes."""
    shown = views(tmp_path, None)
    assert "Leader" not in [outcome.text for outcome in ask(shown, "/").page.of("th")]
    assert "There is no leader election: this process writes." in ask(shown, "/health").text
    assert notices(shown, f"/targets/us/{WEB}") == ""


@pytest.mark.parametrize(
    ("cluster", "notice"),
    [
        ("eu", ""),
        ("us", f"us is led by autoscaler-1_2e at {HOST}: this process is its standby."),
        ("ap", "No leader of ap is known: this process is its standby."),
    ],
)
def test_the_page_of_a_target_says_who_leads_its_cluster(
    tmp_path: Path, cluster: str, notice: str
) -> None:
    """With a link to the same page there."""
    shown = views(tmp_path, SHARED)
    assert notices(shown, f"/targets/{cluster}/{WEB}") == notice
    links = ask(shown, f"/targets/{cluster}/{WEB}").page.links()
    there = f"{URL.rstrip('/')}/targets/{cluster}/{WEB}"
    assert (there in links) is (cluster == "us")


def test_who_leads_nothing_says_so_on_every_page(tmp_path: Path) -> None:
    """The page of the health has who does."""
    shown = views(tmp_path, [replace(leader, leading=False) for leader in SHARED])
    for path in ("/", "/health", "/targets/a/b/c"):
        assert notices(shown, path) == (
            "This process is a standby in all clusters: other processes lead and write."
        )
        assert "/health#leadership" in ask(shown, path).page.links()


@pytest.mark.parametrize(
    ("leader", "notice"),
    [
        (ClusterLeader("", leading=True, holder="a_1"), ""),
        (
            ClusterLeader("", leading=False, holder="a_1"),
            "This process is a standby: a_1 leads and writes.",
        ),
        (ClusterLeader("", leading=False), "This process is a standby: no leader is known."),
    ],
)
def test_the_only_cluster_has_no_name(tmp_path: Path, leader: ClusterLeader, notice: str) -> None:
    """Its leader is told in a sentence, on every page."""
    shown = views_of(tmp_path, [result_of(target_of("web"))], leaders=(leader,))
    for path in ("/", "/health", f"/targets/{WEB}"):
        assert notices(shown, path) == notice
    leadership = " ".join(ask(shown, "/health").page.by_id("health").text.split())
    assert f"Leadership {notice or 'This process leads and writes.'}" in leadership


@pytest.mark.parametrize("path", ["/health", "/fleet", "/targets"])
def test_the_api_tells_it(tmp_path: Path, path: str) -> None:
    """What is not known is empty or null; without leader election nothing is said."""
    with asking(views(tmp_path, SHARED)) as client:
        assert client.json(path)["leaders"] == [
            {"cluster": "eu", "leading": True, "holder": "autoscaler-0_1f", "url": None},
            {"cluster": "us", "leading": False, "holder": "autoscaler-1_2e", "url": URL},
            {"cluster": "ap", "leading": False, "holder": "", "url": None},
        ]
    with asking(views(tmp_path, None)) as client:
        assert "leaders" not in client.json(path)


@pytest.mark.parametrize("path", ["/fleet", "/targets"])
def test_another_leader_is_news(tmp_path: Path, path: str) -> None:
    """An answer that was kept is not taken for the present one."""
    leaders = list(SHARED)
    shown = replace(views(tmp_path, SHARED), leaders=lambda: tuple(leaders))
    with asking(shown) as client:
        client.json(path)
        tag = client.response.headers["ETag"]
        client.get(path, 304, If_None_Match=tag)
        leaders[2] = ClusterLeader("ap", leading=False, holder="autoscaler-2_3d")
        assert client.json(path, If_None_Match=tag)["leaders"][2]["holder"] == "autoscaler-2_3d"


HOSTILE = [
    "javascript:alert(1)",
    "//evil.example",
    "ftp://evil.example",
    "http://",
    "http://user:secret@evil.example",
    'http://evil.example/"><script>alert(1)</script>',
    "http://evil.example/?a=b",
    "http://evil.example/\n",
    "http://evil.example/" + "x" * 300,
    "http://" + "x" * 10_000_000,
]


@pytest.mark.parametrize("url", HOSTILE, ids=lambda url: url[:30])
def test_only_a_short_address_of_the_web_is_a_link(tmp_path: Path, url: str) -> None:
    """Whoever may write the Lease may write any text there."""
    hostile = ClusterLeader("us", leading=False, holder="x", url=url)
    shown = views(tmp_path, [hostile])
    for path in ("/", "/health", f"/targets/us/{WEB}"):
        answer = ask(shown, path)
        assert all(link.startswith(("/", "?", "#")) for link in answer.page.links())
        assert "evil" not in answer.text
        assert len(answer.text) < 100_000
    with asking(shown) as client:
        assert client.json("/health")["leaders"][0]["url"] is None


def test_the_name_of_a_leader_is_short_and_printable(tmp_path: Path) -> None:
    """It is a text from outside: cut, on one line, and no markup."""
    name = "<b>\n\x1b[2J\u202e" + "x" * 1_000_000
    shown = views(tmp_path, [ClusterLeader("us", leading=False, holder=name)])
    for path in ("/", "/health", f"/targets/us/{WEB}"):
        answer = ask(shown, path)
        assert r"<b> \x1b[2J\u202exxx" in answer.page.by_id("main").text + notices(shown, path)
        assert answer.page.of("b") == []
        assert len(answer.text) < 100_000
    with asking(shown) as client:
        assert len(client.json("/health")["leaders"][0]["holder"]) == 253


def test_the_shard_that_has_a_target_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the API and above the page in place of the target's, with a link to the page there."""
    monkeypatch.setattr("socket.gethostname", lambda: "pod-1")
    election = {"enabled": True, "namespace": "ops", "externalUrl": "http://{hostname}.a:9191"}
    settings = {"shards": 2, "leaderElection": election}
    whole = views_of(tmp_path, [result_of(target_of("web"))], settings=settings)
    number = owner("shop", 2)
    own = whole.config().of_shard(1 - number)
    shown = replace(whole, config=lambda: own)
    with asking(shown) as client:
        problem = client.problem("/targets/shop/Deployment/other", 404)
        at = f"shard {number} has the targets there, see http://pod-{number}.a:9191"
        assert problem["detail"].endswith(at)
        assert client.json("/health")["shard"]["number"] == 1 - number
    path = "/targets/shop/Deployment/other"
    assert notices(shown, path).startswith(f"Shard {number} has the targets there")
    assert f"http://pod-{number}.a:9191{path}" in ask(shown, path).page.links()
    assert notices(whole, path) == ""
