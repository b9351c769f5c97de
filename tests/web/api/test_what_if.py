"""A target rehearsed with other settings: what is answered, what is refused, and the bounds."""

import json
import resource
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from autoscaler import clock
from autoscaler.core.extensions import Mode
from autoscaler.rendering.rehearsal import WhatIfAnswer
from autoscaler.web import what_if as bounds
from autoscaler.web.site import Views
from autoscaler.web.what_if import what_if, yaml_in_force
from autoscaler.web.what_if_process import answer_to
from tests.web.api.serving import Client, asking
from tests.worlds.pages.fleets import NOW

PAST = "from=2026-03-12T01:30:00Z&to=2026-03-12T03:30:00Z"


ask_process = bounds.asked


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let it be the end of the record, and spare the start of a process."""
    monkeypatch.setattr(clock, "wall", lambda: NOW)
    monkeypatch.setattr(
        bounds, "asked", lambda question: bounds.answer_in(answer_to(json.loads(question)))
    )


@pytest.fixture
def _by_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a process answer, as it is; a machine that is busy has time."""
    monkeypatch.setattr(bounds, "asked", ask_process)
    monkeypatch.setattr(bounds, "MOST_SECONDS", 60.0)


def path(name: str, query: str = PAST) -> str:
    """Return where a target is rehearsed."""
    return f"/targets/shop/Deployment/{name}/what-if?{query}"


def in_force(fleet: Views, name: str) -> str:
    """Return the YAML of a target."""
    known = fleet.states.known_of(f"shop/Deployment/{name}")
    assert known is not None
    return yaml_in_force(known.target)


def test_more_replicas_cost_more_and_the_changed_key_is_a_patch(
    fleet: Views, client: Client
) -> None:
    """Both measures are of the same demand; nothing but the changed key differs."""
    text = in_force(fleet, "web").replace("minReplicas: 1", "minReplicas: 20")
    found = client.post(path("web"), text.encode())
    target = found["target"]
    assert found["changed"] == "minReplicas: 20"
    assert target["measures"]["replicaHours"] > 40 > target["ran"]["replicaHours"]
    assert target["measures"]["scoredSeconds"] == target["ran"]["scoredSeconds"]
    assert min(target["lines"]["replicas"][2:]) == 20
    # It is rehearsed, and not done.
    assert client.json("/targets/shop/Deployment/web")["state"]["minReplicas"] == 1


@pytest.mark.parametrize("name", ["reports", "thumbnails", "search", "mailer", "legacy"])
def test_a_target_in_any_state_is_rehearsed(fleet: Views, client: Client, name: str) -> None:
    """Paused by an annotation, idle at zero, with a schedule, without values, controlled."""
    found = client.post(path(name), in_force(fleet, name).encode())
    assert "changed" not in found
    assert found["target"]["measures"]["replicaHours"] >= 0
    assert found["target"]["ran"]["replicaHours"] > 0
    if name == "mailer":
        assert found["target"]["measures"]["gapSeconds"] > 1700


def test_a_paused_target_stays_and_one_in_shadow_is_rehearsed_as_if_it_were_live(
    fleet: Views, client: Client
) -> None:
    """As `autoscaler replay` has it."""
    text = in_force(fleet, "web")
    paused = client.post(path("web"), f"{text}paused: true\n".encode())["target"]
    assert paused["firstReplicas"] == paused["lastReplicas"]
    assert "changes" not in paused["measures"] or paused["measures"]["changes"] == 0
    shadow = client.post(path("web"), text.replace("mode: live", "mode: shadow").encode())
    assert shadow["target"]["measures"]["changes"] > 5
    assert shadow["changed"] == f"mode: {Mode.SHADOW.value}"


def test_every_mistake_is_told_at_its_line(fleet: Views, client: Client) -> None:
    """As `autoscaler validate` tells it, by the lines of what was sent."""
    text = in_force(fleet, "order-worker").replace("minReplicas: 1", "minReplicas: 99")
    text = text.replace("'30'", "many").replace("syncPeriod", "syncPeriodd")
    problem = client.post(path("order-worker"), text.encode(), 422)
    assert problem["detail"] == "the YAML has 3 mistakes"
    lines = text.split("\n")
    told = [(lines[one["line"] - 1].strip(), one["path"]) for one in problem["mistakes"]]
    assert told == [
        ("maxReplicas: 20", "maxReplicas"),
        ("averageValue: many", "metrics[0].external.target.averageValue"),
        ("syncPeriodd: 15s", "syncPeriodd"),
    ]


@pytest.mark.parametrize(
    ("text", "sentence", "line"),
    [
        ("", "must be a mapping", 1),
        ("a: [", "not YAML", 1),
        ("a: 1\nb: {\n", "not YAML", 2),
        ("kind: Deployment\nspec: {}\n", "", 1),
        ("\x00", "not YAML", None),
        ("x: &a [1]\ny: *b\n", "anchor", 2),
    ],
)
def test_what_is_no_target_is_refused(
    client: Client, text: str, sentence: str, line: int | None
) -> None:
    """With a line of what was sent."""
    problem = client.post(path("web"), text.encode(), 422)
    found = next(one for one in problem["mistakes"] if sentence in one["problem"])
    assert line is None or found["line"] in {line, line + 1}


def test_aliases_that_stand_for_much_are_refused_soon(client: Client) -> None:
    """A short text cannot take the processor."""
    bomb = "".join(f"x{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    begun = time.process_time()
    client.post(path("web"), f"x0: &a0 [1]\n{bomb}".encode(), 422)
    assert time.process_time() - begun < bounds.MOST_SECONDS


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("name: web", "name: checkout"), "the YAML is of shop/Deployment/checkout, and not of"),
        (("name: requests", "name: others"), "nothing is recorded of the metric others"),
        (("http_requests_total", "errors_total"), "nothing is recorded of the metric requests"),
    ],
)
def test_what_the_record_cannot_tell_is_refused(
    fleet: Views, client: Client, change: tuple[str, str], sentence: str
) -> None:
    """Another workload, another metric, another query."""
    text = in_force(fleet, "web").replace(*change)
    assert sentence in client.post(path("web"), text.encode(), 422)["detail"]


def test_a_time_without_a_record_is_refused(fleet: Views, client: Client) -> None:
    """With the time."""
    text = in_force(fleet, "web").encode()
    past = "from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z"
    problem = client.post(path("web", past), text, 422)
    assert "nothing is recorded of it from 2026-01-01T00:00:00Z" in problem["detail"]
    client.post(path("web", "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z"), text, 400)
    client.post(path("unknown"), text, 404)


def test_without_a_record_nothing_is_rehearsed(fleet: Views) -> None:
    """And the answer says why."""
    text = in_force(fleet, "web").encode()
    with asking(replace(fleet, record=None)) as client:
        assert "the record is off" in client.post(path("web"), text, 503)["detail"]


def test_what_is_too_long_is_not_read(client: Client) -> None:
    """Neither the request nor its YAML."""
    problem = client.post(path("web"), b"x" * (bounds.MOST_BODY + 1), 413)
    assert problem["detail"] == "the request has more than 100 KiB"
    problem = client.post(path("web"), b"x" * (bounds.MOST_YAML + 1), 413)
    assert problem["detail"] == "the YAML has more than 32 Ki characters"


def test_one_at_a_time_for_each_client_and_few_in_all() -> None:
    """Whoever comes beside is told so at once; after the end there is room again."""
    room = bounds.WhatIfRoom()
    with room.entered("a") as first, room.entered("a") as again, room.entered("b") as other:
        assert first is None
        assert other is None
        assert again is not None
        assert again.status == 429
        with room.entered("c") as third:
            assert third is not None
            assert third.status == 503
    with room.entered("a") as first, room.entered("c") as third:
        assert first is third is None


def test_a_client_is_told_that_its_other_rehearsal_runs(
    fleet: Views, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one is answered all the same, and other requests are meanwhile."""
    begun, go_on = threading.Event(), threading.Event()
    ask = bounds.asked

    def slow(question: bytes) -> object:
        begun.set()
        assert go_on.wait(20)
        return ask(question)

    monkeypatch.setattr(bounds, "asked", slow)
    text = in_force(fleet, "web").encode()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(client.post, path("web"), text)
        assert begun.wait(20)
        other = Client(client._listener)
        assert "another rehearsal of yours" in other.post(path("web"), text, 429)["detail"]
        assert other.response.headers["Retry-After"]
        assert other.json("/fleet")["targets"] == 10
        go_on.set()
        assert first.result()["target"]


@pytest.mark.usefixtures("_by_process")
def test_a_process_answers_the_same(fleet: Views) -> None:
    """What is asked and what is answered go to it and back."""
    known = fleet.states.known_of("shop/Deployment/web")
    assert known is not None
    text = yaml_in_force(known.target).replace("minReplicas: 1", "minReplicas: 20")
    given = fleet, known.target, text, (NOW - 3600, NOW), "me"
    answer = what_if(*given)
    assert isinstance(answer, WhatIfAnswer)
    assert answer.changed == "minReplicas: 20"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            bounds, "asked", lambda question: bounds.answer_in(answer_to(json.loads(question)))
        )
        assert what_if(*given) == answer


@pytest.mark.usefixtures("_by_process")
def test_what_takes_too_long_is_ended(
    fleet: Views, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the answer says what to do."""
    monkeypatch.setattr(bounds, "MOST_SECONDS", 0.05)
    problem = client.post(path("web"), in_force(fleet, "web").encode(), 422)
    assert "it has not ended in 0.05 s" in problem["detail"]


@pytest.mark.usefixtures("_by_process")
def test_what_needs_too_much_memory_ends_alone(
    fleet: Views, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process has a limit; the daemon goes on."""
    code = "import autoscaler.web.what_if_process as p; p.MOST_MEMORY = 40 << 20; p.main()"
    monkeypatch.setattr(bounds, "COMMAND", [sys.executable, "-c", code])
    problem = client.post(path("web"), in_force(fleet, "web").encode(), 422)
    assert "it may need too much memory" in problem["detail"]


def test_the_process_has_its_limits_before_anything_is_imported() -> None:
    """Its memory and its time are bounded, and every other process goes first."""
    code = (
        "import json, os, resource, sys\n"
        "import autoscaler.web.what_if_process as p\n"
        "p.answer_to = lambda _: json.dumps([resource.getrlimit(resource.RLIMIT_AS)[0],"
        " resource.getrlimit(resource.RLIMIT_CPU)[0], os.nice(0), 'pydantic' in sys.modules])"
        ".encode()\n"
        "p.main()"
    )
    told = subprocess.run([sys.executable, "-c", code], input=b"{}", stdout=-1, check=True).stdout
    assert json.loads(told) == [512 << 20, 10, 19, False]
    assert resource.getrlimit(resource.RLIMIT_CPU)[0] == resource.RLIM_INFINITY
