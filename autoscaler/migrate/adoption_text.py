"""The messages of `autoscaler adopt`: the steps to review, and unfinished steps."""

import shlex
from collections.abc import Iterator, Sequence

from autoscaler.config.documents import as_yaml
from autoscaler.core.extensions import Mode
from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.text import printable
from autoscaler.kubernetes.api import JsonObject
from autoscaler.kubernetes.autoscalers import KEDA_KIND, hpa_of
from autoscaler.migrate.moving import (
    HPA_KIND,
    PAUSED,
    Move,
    Other,
    Situation,
    as_autoscaler,
    may_sleep,
    named,
    returns_by,
    verdict_of,
)
from autoscaler.rendering import wording
from autoscaler.rendering.hpa import hpa_text

_RESOURCES = {HPA_KIND: "hpa", KEDA_KIND: "scaledobject"}
INDENT = "     "
"""The indentation of a line to copy."""
NOTHING = "  nothing to do"
"""The last line where the command would change nothing."""
_LONGEST_NAME = 253


# -- state -----------------------------------------------------------------------------------------


def situation_text(standing: Situation) -> str:
    """Return what the other autoscaler wants."""
    other = standing.other
    return f"{other} scales it" if other.autoscaler is None else hpa_text(hpa_of(other.autoscaler))


def ours(standing: Situation) -> str:
    """Return what this autoscaler would do."""
    if standing.state is None:
        return f"not known: {standing.unknown}"
    return printable(standing.state.message, LONGEST_SENTENCE)


def in_charge(now: Situation, before: int | None) -> str:
    """Return the count at the takeover, and the current decision."""
    message = "" if now.state is None else printable(now.state.message, LONGEST_SENTENCE)
    count = "an unknown count" if before is None else wording.counted(before, "replica")
    return f"done: it is scaled from here, and was taken over at {count}; {message}"


def given_back(now: Situation, before: int | None) -> str:
    """Return the counts before and after, and whether the daemon has stopped writing the target."""
    if now.mode is None:
        return f"done; it is not known whether the daemon leaves it alone: {now.unknown}"
    counts = f"{before} -> {now.count}" if now.count != before else f"{now.count}"
    return f"done: {now.other} scales it, and the daemon leaves it alone; replicas: {counts}"


# -- where a step does not end ---------------------------------------------------------------------


IN_SHADOW = (
    "the daemon does not write a target in shadow: remove `mode: shadow`, or `run --shadow`, "
    "first; it still leaves alone what another autoscaler scales"
)


def not_at_rest(now: Situation) -> str:
    """Return why the other autoscaler was not removed."""
    if now.mode is Mode.SHADOW:
        return IN_SHADOW
    if not now.is_left_alone:
        return not_left_alone(now)
    other = now.other
    told = f"{other}" if other.autoscaler is None else hpa_text(hpa_of(other.autoscaler))
    return (
        f"{told}, replicas are {now.count}: a change is in progress: try again when the "
        "wanted count equals the replicas, or use --force"
    )


def not_gone(key: str, other: Other) -> str:
    """Return why the other autoscaler still exists."""
    stays = f"{key} is left alone as long as it is there"
    if other.scaled_object is not None:
        paused = f"{named(other.scaled_object)} is paused, and {other} is still there"
        return f"{paused}: does KEDA's operator run? {stays}"
    by = " and ".join(returns_by({} if other.object is None else other.object))
    made = f": {by} recreated it; remove it there" if by else ""
    return f"{other} is still there, or there again{made}. {stays}"


def not_in_charge(key: str, now: Situation) -> str:
    """Return why the daemon does not scale it."""
    if now.other.autoscaler is not None:
        return not_gone(key, now.other)
    if now.mode is Mode.SHADOW:
        return f"{IN_SHADOW}. Until then nothing scales it: its count stays"
    return f"the daemon does not scale it yet: it is {now.word or 'not known'}"


def not_made(now: Situation) -> str:
    """Return that KEDA has not created its autoscaler."""
    return f"KEDA has not created the HPA of {now.other}: is KEDA's operator running?"


def not_left_alone(now: Situation) -> str:
    """Return that the daemon does not see the other autoscaler."""
    word = now.word or "not known"
    return (
        f"the daemon does not see {now.other}, and says that the target is {word}. Give it the "
        "right to list and watch HorizontalPodAutoscalers, and check that your kubeconfig is "
        "for the daemon's cluster"
    )


# -- the steps to review ---------------------------------------------------------------------------


def over(move: Move, standing: Situation, problems: Sequence[str], kubectl: str) -> list[str]:
    """Return the lines of a review of a takeover; ``kubectl`` are its flags."""
    other, where = standing.other, _where(move, kubectl)
    lines = [*_head(move, standing, problems), *_section("note", notes_over(move, standing))]
    if other.object is None or not other.is_there:
        return [*lines, NOTHING]
    kind, name = other.object["kind"], _name(other.object)
    resource, saved = f"{_RESOURCES[kind]} {name}{where}", shlex.quote(str(move.saved))
    save = [
        f"mkdir -p {shlex.quote(str(move.saved.parent))}",
        f"kubectl get {resource} -o json > {saved}",
    ]
    away = ("delete it: the count stays", [f"kubectl delete {resource}"])
    if other.scaled_object is not None:
        pause = f"kubectl annotate {resource} --overwrite {PAUSED}=true"
        away = ("pause it: KEDA deletes its autoscaler and keeps the count", [pause])
    first = ("save its manifest, for --back", save)
    return lines + _numbered([first, away, _check(move)])


def back(move: Move, standing: Situation, problems: Sequence[str], kubectl: str) -> list[str]:
    """Return the lines of a review of a return; ``kubectl`` are its flags."""
    other, where = standing.other, _where(move, kubectl)
    lines = [*_head(move, standing, problems), *_section("note", _notes_back(move, other))]
    if other.is_there:
        return [*lines, NOTHING]
    steps: list[tuple[str, list[str]]] = []
    if other.scaled_object is not None:
        name = _name(other.scaled_object)
        end = f"kubectl annotate scaledobject {name}{where} {PAUSED}-"
        if may_sleep(other.scaled_object):
            now = r'"{\"status\":{\"lastActiveTime\":\"$(date -u +%FT%TZ)\"}}"'
            patch = f"kubectl patch scaledobject {name}{where} --subresource=status --type=merge"
            steps.append(("set its last activity to now", [f"{patch} -p {now}"]))
        steps.append(("end its pause: KEDA makes its autoscaler again", [end]))
    else:
        if move.cluster.count() == 0:
            ref = move.target.spec.scale_target_ref
            kind = ".".join(filter(None, (ref.kind.lower(), ref.group)))
            scale = f"kubectl scale {shlex.quote(f'{kind}/{ref.name}')}{where}"
            steps.append(("scale it up from 0", [f"{scale} --replicas={move.least_awake()}"]))
        steps.append(_apply(move, where))
    return lines + _numbered([*steps, _check(move)])


def _head(move: Move, standing: Situation, problems: Sequence[str]) -> list[str]:
    other, there = standing.other, situation_text(standing)
    if other.object is None:
        there = "no other autoscaler scales it"
    elif not other.is_there:
        there = f"{named(other.object)} is paused"
    # The reason is already among the obstacles.
    here = [] if standing.unknown in problems else [f"  here: {ours(standing)}"]
    return [move.key, f"  there: {there}", *here, *_section("in the way", problems)]


def _section(what: str, sentences: Sequence[str]) -> list[str]:
    return [f"  {what}: {sentence}" for sentence in sentences]


def notes_over(move: Move, standing: Situation) -> list[str]:
    """Return notes on a takeover."""
    notes, other = [], standing.other
    if other.is_there and standing.mode is not None:
        verdict = verdict_of(move.daemon, move.target.key)
        # Obstacles are already printed.
        notes += [] if verdict.agrees is False else [verdict.sentence]
        notes += verdict.differences
    if other.object is not None and other.is_there:
        notes += [_returns(other.object, by) for by in returns_by(other.object)]
    if other.scaled_object is not None:
        advanced = other.scaled_object["spec"].get("advanced") or {}
        if advanced.get("restoreToOriginalReplicaCount"):
            notes.append(
                f"{named(other.scaled_object)} has restoreToOriginalReplicaCount: if it is deleted "
                "later, KEDA restores the count from before KEDA; set it to false first"
            )
    return notes


def _notes_back(move: Move, other: Other) -> list[str]:
    """Return what happens to the count when the other autoscaler returns."""
    scaled_object = other.scaled_object
    if other.is_there or (scaled_object is not None and not may_sleep(scaled_object)):
        return []
    if scaled_object is not None:
        seconds = printable(str(scaled_object["spec"].get("cooldownPeriod") or 300))
        note = (
            f"without activity KEDA would scale {named(scaled_object)} down at once, since its "
            "last activity is from before the pause: that is set to now, and KEDA keeps the count "
            f"for its cooldownPeriod, {seconds} s"
        )
    elif move.cluster.count() == 0:
        note = (
            "it is at 0 replicas, where an HPA acts only if it scaled to 0 itself (Kubernetes "
            f"1.36 and later): the count is set to {move.least_awake()} first"
        )
    else:
        return []
    return [note]


def _returns(other: JsonObject, by: str) -> str:
    what = "undo the pause" if other["kind"] == KEDA_KIND else "make it again"
    return f"{by} manages {named(other)}, and may {what}; make the change there, too"


def _apply(move: Move, where: str) -> tuple[str, list[str]]:
    if move.saved_manifest() is not None:
        text = "create it again; first remove any uid and resourceVersion from the file"
        return text, [f"kubectl apply{where} -f {shlex.quote(str(move.saved))}"]
    manifest = as_yaml(as_autoscaler(move.target)[0]).splitlines()
    return (
        f"create an HPA from the target, as no manifest was saved in {move.saved}",
        [f"kubectl apply{where} -f FILE, with this in it:", *manifest],
    )


def _check(move: Move) -> tuple[str, list[str]]:
    commands = (f"autoscaler {command} {_named_in(move)}" for command in ("status", "history"))
    return "look at it", list(commands)


def _name(other: JsonObject) -> str:
    return shlex.quote(printable(other["metadata"]["name"], _LONGEST_NAME))


def _named_in(move: Move) -> str:
    return f"-c {shlex.quote(str(move.config))} {shlex.quote(move.key)}"


def _where(move: Move, kubectl: str) -> str:
    return f" -n {shlex.quote(move.target.namespace)}{kubectl}"


def _numbered(steps: Sequence[tuple[str, list[str]]]) -> list[str]:
    def lines() -> Iterator[str]:
        for number, (text, commands) in enumerate(steps, 1):
            yield f"  {number}. {text}"
            yield from (f"{INDENT}{command}".rstrip() for command in commands)

    return list(lines())
