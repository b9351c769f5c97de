"""`autoscaler adopt`: takes over a target, or returns it, without a change of its replicas.

Without ``execute`` it prints the steps as commands. After each step either one of the two scales
the workload, or its count stays, and the same command continues from there.
"""

import shlex
import sys
from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path

from autoscaler.cli.options import SourceOptions
from autoscaler.cli.output import CommandError, print_text
from autoscaler.cli.sources import daemon_of
from autoscaler.cli.target_names import chosen_targets
from autoscaler.config import Config, KubernetesSettings, load
from autoscaler.config.loading import namespace_or_anywhere
from autoscaler.core.classification import State
from autoscaler.core.extensions import Mode
from autoscaler.core.text import printable
from autoscaler.daemon.connections import endpoint_of
from autoscaler.kubernetes import ConnectError
from autoscaler.kubernetes.api import JsonObject
from autoscaler.kubernetes.autoscalers import KEDA_KIND
from autoscaler.kubernetes.failures import Failure
from autoscaler.migrate import adoption_text
from autoscaler.migrate.moving import (
    AGAIN,
    HPA_KIND,
    PAUSED_REPLICAS,
    Move,
    Other,
    ReplacedAutoscalers,
    Situation,
    as_autoscaler,
    is_same,
    may_sleep,
    named,
    verdict_of,
)
from autoscaler.migrate.options import AdoptOptions
from autoscaler.transport.retries import FOR_A_COMMAND

_BACKUP = "replaced"
"""The folder next to the configuration for saved manifests."""
_CONFLICT = 409
_LONGEST_COUNT = 20


def adopt(names: Sequence[str], place: SourceOptions, wishes: AdoptOptions) -> int:
    """Take over the named targets, or return them; return the exit code.

    They are in the configuration of ``place``.
    """
    config = place.config or Path()
    loaded = load(config, namespace_or_anywhere)
    targets = chosen_targets(loaded.targets, names)
    cluster_name = _cluster_of(loaded, {target.key for target in targets})
    daemon, kubernetes = daemon_of(place), loaded.connections[cluster_name]
    backup = wishes.backup or config.parent / _BACKUP
    try:
        server = endpoint_of(kubernetes, wishes.context)
        with closing(server.connect(absent_seconds=FOR_A_COMMAND)) as api:
            moves = []
            for target in targets:
                ref = target.spec.scale_target_ref
                cluster = ReplacedAutoscalers(api, target.namespace, ref)
                moves.append(Move(target, config, cluster, daemon, backup))
            if wishes.execute:
                return _carry_out(moves, wishes)
            _review(moves, wishes, _kubectl(kubernetes, wishes))
    except ConnectError as error:
        raise CommandError(f"autoscaler cannot adopt: {error}") from None
    return 0


def _cluster_of(config: Config, named: Collection[str]) -> str:
    """Return the cluster of all named targets; raises CommandError for several."""
    clusters = sorted({target.cluster for target in config.targets if target.key in named})
    if len(clusters) > 1:
        both = " and ".join(clusters[:2])
        raise CommandError(f"autoscaler adopts targets of one cluster at a time, not {both}")
    return clusters[0] if clusters else next(iter(config.connections))


def _kubectl(settings: KubernetesSettings, wishes: AdoptOptions) -> str:
    """Return the flags with which kubectl uses the same cluster."""
    context, kubeconfig = wishes.context or settings.context, settings.kubeconfig
    flags = (("--kubeconfig", kubeconfig), ("--context", context))
    return "".join(f" {flag} {shlex.quote(str(value))}" for flag, value in flags if value)


def _review(moves: Sequence[Move], wishes: AdoptOptions, kubectl: str) -> None:
    """Print the steps for each target, and the obstacles."""
    check, shown = _problems_over, adoption_text.over
    if wishes.back:
        check, shown = _problems_back, adoption_text.back
    in_the_way = has_steps = False
    for move in moves:
        problems = check(move, wishes)
        in_the_way = in_the_way or bool(problems)
        lines = shown(move, move.look(), problems, kubectl)
        has_steps = has_steps or lines[-1] != adoption_text.NOTHING
        for line in lines:
            # Commands and differences are copied by users, so they are not wrapped.
            (print if line.startswith(adoption_text.INDENT) else print_text)(line)
    if in_the_way:
        print_text("--execute does nothing as long as something is in the way")
    elif has_steps:
        print_text("--execute does these steps, and waits for each")


def _carry_out(moves: Sequence[Move], wishes: AdoptOptions) -> int:
    """Check all targets, then move them."""
    check = _problems_back if wishes.back else _problems_over
    problems = [f"{move.key}: {problem}" for move in moves for problem in check(move, wishes)]
    if problems:
        raise CommandError("\n".join([*problems, "nothing was changed"]))
    if wishes.back:
        _back(moves)
    else:
        _over(moves, wishes)
    return 0


def _tell(move: Move, step: str) -> None:
    print_text(f"{move.key}: {step}")
    sys.stdout.flush()


# -- over ------------------------------------------------------------------------------------------


def _problems_over(move: Move, wishes: AdoptOptions) -> list[str]:
    """Return why a target may not be taken over."""
    standing = move.look()
    if standing.mode is None:
        return [standing.unknown]
    problems = [adoption_text.IN_SHADOW] if standing.mode is Mode.SHADOW else []
    other = standing.other
    if other.is_there:
        problems += _lacked_rights(move, other)
        if other.scaled_object is not None:
            problems += _would_move(other.scaled_object)
    if not wishes.force:
        doubts = [
            f"{doubt}; use --force to take it over anyway" for doubt in _doubts(move, standing)
        ]
        problems += doubts
    return problems


def _doubts(move: Move, standing: Situation) -> list[str]:
    """Return the reasons against a takeover now that --force overrides."""
    doubts = []
    if standing.word == State.FAILING and standing.state is not None:
        doubts.append(f"it is failing: {standing.state.message}")
    extensions, spec = move.target.extensions, move.target.spec
    sleeps = extensions.idle is not None or spec.min_replicas == 0
    if standing.count == 0 and not sleeps:
        doubts.append(
            "it is at 0 replicas, and without `idle` or `minReplicas: 0` it stays there for good"
        )
    if standing.other.is_there:
        verdict = verdict_of(move.daemon, move.target.key)
        if verdict.agrees is False:
            doubts.append(verdict.sentence)
    return doubts


def _would_move(scaled_object: JsonObject) -> list[str]:
    annotations = scaled_object["metadata"].get("annotations") or {}
    if PAUSED_REPLICAS not in annotations:
        return []
    count = printable(annotations[PAUSED_REPLICAS], _LONGEST_COUNT)
    annotation = f"the annotation {PAUSED_REPLICAS} of {named(scaled_object)}"
    return [f"{annotation} would set it to {count} as soon as that is paused; take it away first"]


def _lacked_rights(move: Move, other: Other) -> list[str]:
    if other.scaled_object is not None:
        return move.cluster.lacking(KEDA_KIND, "list", "patch")
    return move.cluster.lacking(HPA_KIND, "list", "delete")


def _over(moves: Sequence[Move], wishes: AdoptOptions) -> None:
    """Remove the other autoscalers one by one, when the daemon sees all of them."""
    others = [_seen(move) for move in moves]
    for move, other in zip(moves, others, strict=True):
        _take_over(move, other, wishes)


def _seen(move: Move) -> Other:
    """Save the other autoscaler when the daemon sees it; return it."""
    standing = move.look()
    if standing.other.is_there:
        standing = move.until(
            lambda now: now if now.is_left_alone or not now.other.is_there else None,
            adoption_text.not_left_alone,
        )
    other = standing.other
    if other.object is None or not other.is_there:
        _tell(move, "no other autoscaler scales it")
    else:
        _tell(
            move, f"{adoption_text.situation_text(standing)}; here: {adoption_text.ours(standing)}"
        )
        for note in adoption_text.notes_over(move, standing):
            _tell(move, note)
        move.save(other.object)
        _tell(move, f"saved {named(other.object)} in {move.saved}")
    return other


def _take_over(move: Move, other: Other, wishes: AdoptOptions) -> None:
    before = _take_away(move, other, wishes) if other.is_there else move.look().count
    now = move.until(
        lambda now: now if now.is_in_charge else None,
        lambda now: adoption_text.not_in_charge(move.key, now),
    )
    _tell(move, adoption_text.in_charge(now, before))


def _take_away(move: Move, first: Other, wishes: AdoptOptions) -> int | None:
    """Delete or pause the other autoscaler while it is at rest; return the count at that time."""

    def attempt(now: Situation) -> tuple[int | None] | None:
        other = now.other
        if not other.is_there:
            return (now.count,)
        if not now.is_left_alone or now.mode is Mode.SHADOW:
            return None
        if not (wishes.force or _is_at_rest(other.autoscaler, now.count)):
            return None
        if other.scaled_object is not None:
            _fail(move, move.cluster.pause(other.scaled_object, on=True))
            return (now.count,)
        if other.autoscaler is None or first.autoscaler is None:
            return None
        if not is_same(other.autoscaler, first.autoscaler):
            raise CommandError(
                f"{move.key}: {other} was edited or recreated meanwhile, and is not the "
                f"object that was saved; {AGAIN}"
            )
        failure = move.cluster.delete(other.autoscaler)
        # Each sync of an HPA changes it, so it may no longer be at rest.
        changed = failure is not None and failure.status == _CONFLICT
        if not changed:
            _fail(move, failure)
        return None if changed else (now.count,)

    (count,) = move.until(attempt, adoption_text.not_at_rest)
    move.until(
        lambda now: now.other.autoscaler is None or None,
        lambda now: adoption_text.not_gone(move.key, now.other),
    )
    if first.scaled_object is None:
        _tell(move, f"deleted {first}")
    else:
        _tell(move, f"paused {named(first.scaled_object)}, and KEDA has deleted {first}")
    return count


def _is_at_rest(autoscaler: JsonObject | None, count: int | None) -> bool:
    """Return whether the other autoscaler has its desired count, so that no change is lost."""
    status = {} if autoscaler is None else autoscaler.get("status") or {}
    wanted = status.get("desiredReplicas")
    # At zero an HPA decides nothing; before its first sync it wants 0.
    return not wanted or not count or wanted == count


def _fail(move: Move, failure: Failure | None) -> None:
    if failure is not None:
        raise CommandError(f"{move.key}: {failure.message}; {AGAIN}")


# -- back ------------------------------------------------------------------------------------------


def _problems_back(move: Move, wishes: AdoptOptions) -> list[str]:
    """Return why a target cannot be returned."""
    standing = move.look()
    if standing.other.is_there:
        return []
    if standing.other.scaled_object is not None:
        sleeps = may_sleep(standing.other.scaled_object)
        return [
            *move.cluster.lacking(KEDA_KIND, "list", "patch"),
            *(move.cluster.lacking(KEDA_KIND, "patch", subresource="/status") if sleeps else ()),
        ]
    manifest = move.saved_manifest()
    problems = move.cluster.lacking(HPA_KIND, "list", "create")
    count = move.cluster.count()
    problems += [count.message] if isinstance(count, Failure) else []
    if manifest is not None and manifest["kind"] == KEDA_KIND:
        problems.append(
            f"{named(manifest)} is not in the cluster any more: apply {move.saved}, without the "
            "annotation of the pause, and run the same command again"
        )
    if manifest is None and not wishes.force:
        _, lost = as_autoscaler(move.target)
        problems += [f"{loss}; use --force to create it anyway" for loss in lost]
    return problems


def _back(moves: Sequence[Move]) -> None:
    """Restore the other autoscalers, and wait until the daemon sees them."""
    before = [move.look() for move in moves]
    for move, standing in zip(moves, before, strict=True):
        _bring_back(move, standing)
    for move, standing in zip(moves, before, strict=True):
        _leave_alone(move, standing)


def _bring_back(move: Move, standing: Situation) -> None:
    other = standing.other
    if other.is_there:
        _tell(move, f"{other} is there already")
    elif other.scaled_object is not None:
        if may_sleep(other.scaled_object):
            _fail(move, move.cluster.keep_awake(other.scaled_object))
            _tell(move, f"set the last activity of {named(other.scaled_object)} to now")
        _fail(move, move.cluster.pause(other.scaled_object, on=False))
        made = move.until(
            lambda now: now.other if now.other.autoscaler is not None else None,
            adoption_text.not_made,
        )
        _tell(move, f"ended the pause of {named(other.scaled_object)}, and KEDA has made {made}")
    else:
        _wake(move)
        _tell(move, f"made {Other(_created(move))}")


def _wake(move: Move) -> None:
    """Scale from 0 to the minimum of the restored HPA, which would never leave 0."""
    least = move.least_awake()
    woken = move.cluster.wake(least)
    if isinstance(woken, Failure):
        _fail(move, woken)
    elif woken:
        _tell(move, f"set the count from 0 to {least}: an HPA does not act at 0")


def _leave_alone(move: Move, before: Situation) -> None:
    """Wait until the daemon stops writing the target, if it answers."""
    now = move.look()
    if before.mode is not None:
        now = move.until(
            lambda now: now if now.is_left_alone else None, adoption_text.not_left_alone
        )
    if before.other.object is None:
        _wake(move)  # The daemon may have continued before it saw the HPA.
    _tell(move, adoption_text.given_back(now, before.count))


def _created(move: Move) -> JsonObject:
    manifest = move.manifest()
    made = move.cluster.create(manifest)
    if isinstance(made, Failure):
        raise CommandError(f"{move.key}: {made.message}; {AGAIN}")
    if not move.cluster.controls({**made, "kind": HPA_KIND}):
        raise CommandError(
            f"{move.key}: a {named({**made, 'kind': HPA_KIND})} is there that scales something "
            f"else; write another name into {move.saved}, and {AGAIN}"
        )
    return made
