"""`autoscaler adopt` with obstacles, interruptions and the way back, on a real API server."""

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autoscaler.cli.options import SourceOptions
from autoscaler.cli.output import CommandError, code_of
from autoscaler.cli.target_names import UnknownTargetError
from autoscaler.config import shards
from autoscaler.migrate import adopting, adoption_text, moving
from autoscaler.migrate.adopting import adopt
from autoscaler.migrate.moving import Move, Other, ReplacedAutoscaler, ReplacedAutoscalers
from autoscaler.migrate.options import AdoptOptions
from tests.narrowing import assert_parts
from tests.worlds.cluster import others
from tests.worlds.controlplane.api import Json
from tests.worlds.daemon import DaemonProcess, Document
from tests.worlds.process import free_port
from tests.worlds.world import World

EXECUTE = AdoptOptions(execute=True)
BACK = AdoptOptions(execute=True, back=True)
HPA = moving.HPA_KIND


def obstacles(review: str) -> list[str]:
    """Return the obstacles of a move."""
    return re.findall(r"^  in the way: (.*)$", review, re.MULTILINE)


@dataclass(frozen=True)
class Bed:
    """A daemon with targets, and the command that adopts them in this process."""

    world: World
    daemon: DaemonProcess
    capsys: pytest.CaptureFixture[str]

    def adopt(
        self, name: str, wishes: AdoptOptions, url: str | None = None, file: Path | None = None
    ) -> tuple[int | None, str, str]:
        """Adopt a target; return the exit code, the output and the errors."""
        url = url or f"http://{self.daemon.address}"
        place = SourceOptions(url, config=file or self.daemon.file)
        try:
            code: int | None = adopt([f"{self.world.namespace}/{name}"], place, wishes)
        except (CommandError, UnknownTargetError) as error:
            code = code_of(error)
        printed = self.capsys.readouterr()
        key = f"{self.world.key(name)}: "
        return code, printed.out.replace(key, ""), printed.err.replace(key, "")

    def refused(self, name: str, wishes: AdoptOptions = EXECUTE, url: str | None = None) -> str:
        """Return the reason of a refusal, which may change nothing."""
        before = self.there()
        code, out, error = self.adopt(name, wishes, url)
        assert (code, out) == (1, "")
        assert self.there() == before
        assert not (self.daemon.file.parent / "replaced").exists()
        problems = error.splitlines()
        # The last line says that nothing was changed, unless the command ended later.
        return "\n".join(problems[:-1] or problems)

    def there(self) -> list[str]:
        items = self.world.api.get(others.path_of(self.world.namespace))["items"]
        return sorted(document["metadata"]["name"] for document in items)

    def path(self, name: str = "web") -> str:
        return f"{others.path_of(self.world.namespace)}/{name}"

    def decided(self, name: str, count: int, **labels: str) -> None:
        """Let an HPA want a count; make it if it is not there, with labels."""
        if name not in self.there():
            hpa = others.autoscaler(name, of="a")
            hpa["metadata"]["labels"] = labels
            others.create(self.world.api, self.world.namespace, hpa)
        status = {"desiredReplicas": count, "currentReplicas": 1, "currentMetrics": []}
        self.world.api.patch(f"{self.path(name)}/status", {"status": status})

    def target(self, name: str) -> Json:
        target: Json = json.loads(self.daemon.page(f"/api/v1/targets/{self.world.key(name)}"))
        return target

    def controlled(self, name: str) -> str | None:
        by: str | None = self.target(name)["state"].get("controlledBy")
        return by


@pytest.fixture
def run(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Bed]]:
    """Give a function that starts a daemon with a target `a`, which an HPA `web` may scale."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(world.plane.kubeconfig))
    monkeypatch.setattr(moving, "_PATIENCE_SECONDS", 2.0)
    world.want(1)
    world.deploy("a", paused=True)
    with ExitStack() as stack:

        def start(*more: Document, arguments: tuple[str, ...] = (), hpa: int | None = None) -> Bed:
            document = world.document(world.target("a"), *more)
            daemon = stack.enter_context(world.start(document, *arguments))
            daemon.wait_event("started")
            count = "autoscaler_target_current_replicas"
            daemon.wait("a sync", lambda: daemon.metric(count, target=world.key("a")))
            bed = Bed(world, daemon, capsys)
            if hpa is not None:
                bed.decided("web", hpa)
            return bed

        yield start


def test_an_obstacle_keeps_everything_unchanged(
    run: Callable[..., Bed], world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("never", "lost"):
        world.deploy(name, paused=True)
    bed = run(world.target("never", mode="shadow"), world.target("lost", metrics=[]))
    with monkeypatch.context() as context:
        # As if the user's kubeconfig named another cluster than the daemon's.
        elsewhere = others.autoscaler("web", of="a")
        elsewhere["metadata"]["uid"] = "1"
        context.setattr(ReplacedAutoscalers, "find", lambda _: ReplacedAutoscaler((elsewhere,)))
        assert_parts(bed.refused("a"), f'{HPA} "web"', "target is ok", "kubeconfig", "--back")
    bed.decided("web", 1)
    nobody = f"http://127.0.0.1:{free_port()}"
    assert nobody in bed.refused("a", url=nobody)
    assert_parts(bed.refused("lost"), "failing", "--force")
    others.create(world.api, world.namespace, others.autoscaler("of-never", of="never"))
    assert bed.refused("never") == adoption_text.IN_SHADOW
    others.create(world.api, world.namespace, others.autoscaler("other", of="a"))
    assert_parts(bed.refused("a"), f'{HPA} "other"', f'{HPA} "web"')
    world.api.delete(bed.path("other"))
    monkeypatch.setattr(
        *(adopting, "verdict_of"),
        lambda _, key: moving.ShadowVerdict(agrees=False, sentence=f"{key} differs often"),
    )
    assert_parts(bed.refused("a"), f"{world.namespace}/Deployment/a differs often", "--force")
    monkeypatch.undo()
    monkeypatch.setenv("KUBECONFIG", world.environment["KUBECONFIG"])
    role = 'the role in the guide "Migrate"'
    assert_parts(bed.refused("a"), "delete horizontalpodautoscalers.autoscaling", role)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nothing"))
    assert str(tmp_path / "nothing") in bed.refused("a")
    code, _, error = bed.adopt("ab", EXECUTE)
    assert (code, f"{world.namespace}/a?" in error) == (2, True)


def test_a_target_is_refused_by_a_daemon_in_shadow_or_without_it(
    run: Callable[..., Bed], world: World
) -> None:
    """No change of a file ends `run --shadow`; a daemon may run with another file."""
    bed = run(arguments=("--shadow",), hpa=1)
    assert bed.refused("a") == adoption_text.IN_SHADOW
    assert obstacles(bed.adopt("a", AdoptOptions())[1]) == [adoption_text.IN_SHADOW]
    others.create(world.api, world.namespace, others.autoscaler("of-new", of="new"))
    file = world.write(world.document(world.target("new")), "other")
    code, out, _ = bed.adopt("new", AdoptOptions(), file=file)
    assert code == 0
    (obstacle,) = obstacles(out)
    assert_parts(obstacle, f"http://{bed.daemon.address} ", f"{file}?")
    code, out, error = bed.adopt("new", EXECUTE, file=file)
    assert (code, out, error.splitlines()[0]) == (1, "", obstacle)


def test_a_target_of_another_shard_is_refused(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(world.plane.kubeconfig))
    monkeypatch.setattr(moving, "_PATIENCE_SECONDS", 2.0)
    world.deploy("a", paused=True)
    others.create(world.api, world.namespace, others.autoscaler("of-a", of="a"))
    document = world.document(world.target("a"))
    document["shards"] = 2
    document["leaderElection"] = {"enabled": True, "namespace": world.namespace}
    number = shards.owner(world.namespace, 2)
    with world.start(document, "--shard", str(1 - number)) as daemon:
        daemon.wait_event("started")
        code, out, _ = Bed(world, daemon, capsys).adopt("a", AdoptOptions())
    (obstacle,) = obstacles(out)
    assert (code, obstacle.startswith(f"shard {number} ")) == (0, True)


def test_an_interrupted_move_is_continued(run: Callable[..., Bed], world: World) -> None:
    bed = run(hpa=8)
    code, out, error = bed.adopt("a", EXECUTE)
    hpa = f'{HPA} "web"'
    assert code == 1
    assert f"\nsaved {hpa} in " in out
    cautions = out.partition("\nsaved ")[0]
    assert_parts(cautions, "compared: ", "maxReplicas is ")
    assert_parts(error, f"{hpa} wants 8", "--force", "--back")
    assert (bed.there(), bed.controlled("a")) == (["web"], hpa)
    bed.decided("web", 1)
    assert bed.adopt("a", EXECUTE)[0] == 0
    assert (bed.there(), world.replicas("a")) == ([], 1)
    code, out, _ = bed.adopt("a", EXECUTE)
    assert code == 0
    assert "done: " in out
    saved = bed.daemon.file.parent / f"replaced/{world.namespace}.Deployment.a.json"
    assert saved.stat().st_mode & 0o777 == 0o600
    nobody = f"http://127.0.0.1:{free_port()}"
    code, out, _ = bed.adopt("a", BACK, nobody)
    assert (code, bed.there()) == (0, ["web"])
    assert nobody in out


def test_an_autoscaler_that_returns_has_the_tool_that_makes_it() -> None:
    hpa = others.autoscaler("web")
    hpa["metadata"]["labels"] = {"kustomize.toolkit.fluxcd.io/name": "shop"}
    text = adoption_text.not_gone("shop/web", Other(hpa))
    assert_parts(text, f'{HPA} "web"', "Flux (Kustomization shop)", " shop/web ")


class KilledError(BaseException):
    """As by SIGKILL: nothing handles it."""


def test_a_move_is_continued_after_a_kill_at_any_step_over_and_back(
    run: Callable[..., Bed], monkeypatch: pytest.MonkeyPatch
) -> None:
    bed = run(hpa=1)
    steps = [
        (Move, "save", True),
        (ReplacedAutoscalers, "delete", False),
        (ReplacedAutoscalers, "delete", True),
        (adoption_text, "in_charge", False),
    ]
    back = [
        (ReplacedAutoscalers, "create", False),
        (ReplacedAutoscalers, "create", True),
        (adoption_text, "given_back", False),
    ]
    for wishes, places in ((EXECUTE, steps), (BACK, back)):
        for owner, name, after in places:
            done = getattr(owner, name)

            def killed(*given: object, done: Any = done, after: bool = after) -> None:
                if after:
                    done(*given)
                raise KilledError

            with monkeypatch.context() as context:
                context.setattr(owner, name, killed)
                with pytest.raises(KilledError):
                    bed.adopt("a", wishes)
            assert bed.world.replicas("a") == 1
            bed.capsys.readouterr()
        assert bed.adopt("a", wishes)[0] == 0
        assert bed.there() == (["web"] if wishes.back else [])
        assert bed.controlled("a") == (f'{HPA} "web"' if wishes.back else None)
    assert bed.world.changes("a") == 1


def test_two_moves_at_once_have_the_same_result(run: Callable[..., Bed]) -> None:
    bed = run(hpa=1)
    spec = bed.world.api.get(bed.path())["spec"]
    place = SourceOptions(f"http://{bed.daemon.address}", config=bed.daemon.file)
    for wishes, there in ((EXECUTE, []), (BACK, ["web"])):
        with ThreadPoolExecutor(2) as pool:
            both = [
                pool.submit(adopt, [f"{bed.world.namespace}/a"], place, wishes) for _ in range(2)
            ]
        assert [move.result() for move in both] == [0, 0]
        assert bed.there() == there
    assert bed.world.api.get(bed.path())["spec"] == spec
    assert bed.world.changes("a") == 1


@pytest.mark.parametrize("edit", ["spec", "annotation", "anew"])
def test_an_hpa_that_is_edited_after_it_was_saved_stays(
    run: Callable[..., Bed], monkeypatch: pytest.MonkeyPatch, edit: str
) -> None:
    bed, save = run(hpa=1), Move.save
    api, path = bed.world.api, bed.path()

    def save_and_edit(move: Move, other: Json) -> None:
        save(move, other)
        if edit == "spec":
            api.patch(path, {"spec": {"maxReplicas": 7}})
        elif edit == "annotation":
            api.patch(path, {"metadata": {"annotations": {"team": "shop"}}})
        else:
            api.delete(path)
            bed.decided("web", 1)

    with monkeypatch.context() as context:
        context.setattr(Move, "save", save_and_edit)
        code, _, error = bed.adopt("a", EXECUTE)
    assert code == 1
    assert error.startswith(f'{HPA} "web" was edited ')
    edited = api.get(path)
    assert bed.adopt("a", EXECUTE)[0] == 0
    assert bed.adopt("a", BACK)[0] == 0
    returned = api.get(path)
    assert returned["spec"] == edited["spec"]
    assert returned["metadata"].get("annotations") == edited["metadata"].get("annotations")


@pytest.mark.parametrize(("least", "count"), [(None, 1), (2, 2)])
def test_a_target_at_zero_goes_back_with_a_count_at_which_an_hpa_acts(
    run: Callable[..., Bed], least: int | None, count: int
) -> None:
    bed = run(hpa=1)
    bed.world.api.patch(bed.path(), {"spec": {"minReplicas": least}})
    assert bed.adopt("a", EXECUTE)[0] == 0
    bed.world.set_by_hand("a", 0)
    reviewed = bed.adopt("a", AdoptOptions(back=True))[1]
    assert f"set to {count} first\n" in reviewed
    scale = f"kubectl scale deployment.apps/a -n {bed.world.namespace} --replicas={count}\n"
    assert scale in reviewed
    assert (bed.there(), bed.world.replicas("a")) == ([], 0)
    code, out, _ = bed.adopt("a", BACK)
    assert (code, bed.there(), bed.world.replicas("a")) == (0, ["web"], count)
    assert f" from 0 to {count}:" in out.splitlines()[0]


@pytest.mark.parametrize("kind", [HPA, "ScaledObject"])
def test_no_text_of_the_cluster_is_printed_raw(
    run: Callable[..., Bed], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A hostile API server names objects as it likes."""
    evil = "web\x1b]0;owned\x07\n     rm -rf /\u202e"
    other = others.autoscaler(evil, of="a")
    labels = {"kustomize.toolkit.fluxcd.io/name": evil, "scaledobject.keda.sh/name": evil}
    other["metadata"] |= {"uid": evil, "labels": labels}
    keda = {**other, "kind": kind, "spec": {**other["spec"], "cooldownPeriod": evil}}
    if kind == "ScaledObject":
        paused = {"autoscaling.keda.sh/paused": "true", "autoscaling.keda.sh/paused-replicas": evil}
        keda["metadata"] = {**other["metadata"], "annotations": paused}
        situations = ReplacedAutoscaler((), (keda,)), ReplacedAutoscaler((other,), (keda,))
    else:
        del labels["scaledobject.keda.sh/name"]
        situations = ReplacedAutoscaler((other,)), ReplacedAutoscaler((other, other))
    bed = run()
    for there in situations:
        monkeypatch.setattr(ReplacedAutoscalers, "find", lambda _, there=there: there)
        for wishes in (AdoptOptions(), AdoptOptions(back=True)):
            _, *printed = bed.adopt("a", wishes)
            assert "owned" in "".join(printed)
            assert all(line.isprintable() for text in printed for line in text.split("\n"))
            assert not any(line.strip().startswith("rm") for line in "".join(printed).split("\n"))


def test_a_target_goes_back_without_a_manifest(run: Callable[..., Bed]) -> None:
    bed = run()
    assert_parts(bed.refused("a", BACK), "External metric demand", "--force")
    code, reviewed, _ = bed.adopt("a", AdoptOptions(back=True))
    assert code == 0
    assert "\n       - type: External\n" in reviewed
    assert bed.adopt("a", AdoptOptions(execute=True, back=True, force=True))[0] == 0
    made: Json = bed.world.api.get(bed.path("a"))
    assert made["spec"]["maxReplicas"] == 10
    assert made["spec"]["metrics"][0]["external"]["target"]["averageValue"] == "1"
    assert bed.controlled("a") == f'{HPA} "a"'
