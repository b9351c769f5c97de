"""The commands that run a daemon, look at one or tell it something."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from autoscaler.cli.command import command
from autoscaler.cli.options import (
    CONFIG_VARIABLE,
    ONE_TARGET,
    TARGETS_FILE,
    ConfigFile,
    Context,
    DaemonOptions,
    ExplanationOptions,
    Output,
    Since,
    SourceOptions,
    TargetNames,
    Workloads,
    config_option,
    flag,
    seconds_of,
    target_argument,
    time_option,
)
from autoscaler.daemon import LogFormat, LogLevel

_ConfigOfTargets = Annotated[
    Path | None, config_option(f"{TARGETS_FILE} Without it NAMESPACE/NAME is a Deployment.")
]

_NUMBER = "Which of `shards` this process has, from 0 on. Default: its number in a StatefulSet."
_SHARD = typer.Option(min=0, metavar="N", envvar="AUTOSCALER_SHARD", help=_NUMBER)


@command("run -c /etc/autoscaler/autoscaler.yaml")
def run(
    config: ConfigFile,
    log_level: Annotated[LogLevel, typer.Option(help="The least severe lines.")] = LogLevel.INFO,
    log_format: Annotated[
        LogFormat, typer.Option(help="auto: console on a terminal, JSON elsewhere.")
    ] = LogFormat.AUTO,
    shadow: Annotated[
        bool, flag("shadow", "Decide everything and write nothing, beside what scales.")
    ] = False,
    shard: Annotated[int | None, _SHARD] = None,
) -> int:
    """Run the daemon until SIGTERM or SIGINT.

    It reads its configuration again on SIGHUP, and when a file of it changes. With --shadow
    every target is in shadow (`mode: shadow`), and no Lease is taken.

    Exit codes: 0 stopped by a signal, 1 cannot start, 2 bad configuration.
    """
    import signal

    for number in (signal.SIGTERM, signal.SIGINT):
        # Before the daemon installs its own handlers there is nothing to finish.
        signal.signal(number, lambda *_: sys.exit(0))
    # The files are read after this, so that a SIGHUP until then needs no reload.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    from autoscaler.cli.output import CommandError
    from autoscaler.config import load
    from autoscaler.config.shards import ordinal
    from autoscaler.daemon import logs
    from autoscaler.daemon.service import serve
    from autoscaler.kubernetes import ConnectError
    from autoscaler.web.listener import ListenError

    loaded = load(config)
    logs.configure(log_level, log_format)
    try:
        serve(loaded, shadow=shadow, shard=ordinal() if shard is None else shard)
    except (ConnectError, ListenError) as error:
        raise CommandError(f"autoscaler cannot start: {error}") from None
    return 0


@command("validate --prometheus /etc/autoscaler/autoscaler.yaml")
def validate(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", envvar=CONFIG_VARIABLE, help="YAML files to check; - is standard input."
        ),
    ],
    prometheus: Annotated[
        bool, flag("prometheus", "Ask Prometheus every query once, and show what comes back.")
    ] = False,
    strict: Annotated[bool, flag("strict", "Exit with 2 where there is any warning.")] = False,
) -> int:
    """Check configuration files, and print every mistake at once.

    Those that they include are checked too. What is valid but unwise, such as a secret that every
    user may read, is a warning.

    Exit codes: 0 all are valid, 1 Prometheus could not be asked, 2 some are not valid, or
    Prometheus refuses a query, or with --strict there is a warning.
    """
    from autoscaler.cli.validating import validate_files

    return validate_files(files, ask_prometheus=prometheus, strict=strict)


@command("plan -c autoscaler.yaml", "plan -c autoscaler.yaml --explain shop/order-worker")
def plan(
    config: ConfigFile,
    targets: TargetNames = None,
    explain: Annotated[bool, flag("explain", "Tell each target's whole decision.")] = False,
    output: Output = "text",
    *,
    daemon: DaemonOptions,
) -> int:
    """Sync once, write nothing, print what would be done.

    It asks the live cluster and Prometheus, and goes on with what a daemon remembers: the one at
    --url, else the one at the configuration's `listen`, else what is kept in its `stateDirectory`.
    The first line says which. Without any it decides as a daemon that has just started, so that
    nothing goes down before one stabilization window has passed.

    What another autoscaler controls is decided as if it did not.

    Exit codes: 0 every target was decided, 1 some could not be, a right to write is missing, or
    the daemon at --url could not be read, 2 bad configuration.
    """
    from autoscaler.cli.planning import print_plan
    from autoscaler.cli.sources import daemon_at

    asked = None if daemon.url is None else daemon_at(daemon, daemon.url)
    as_json = output == "json"
    return print_plan(config, targets or [], asked, explain=explain, as_json=as_json)


@command("status", "status -c autoscaler.yaml shop/order-worker")
def status(
    targets: TargetNames = None,
    output: Output = "text",
    *,
    place: SourceOptions,
) -> int:
    """Show how each target of a running daemon stands.

    It tells since when and why, and asks the daemon at --url, else the one at the `listen` of
    --config, else the one at http://127.0.0.1:9191. Where none answers, it shows what was last
    recorded in the state directory. In a pipe it is one line for each target, with tabs between the
    columns. The last lines tell what of the daemon is not ok. Of --config only `listen` is needed:
    it may have mistakes.

    Exit codes: 0 shown, 1 no daemon that answers and nothing recorded, 2 bad arguments, or a
    --config that cannot be read.
    """
    from autoscaler.cli.showing_status import print_status

    return print_status(targets or [], place, as_json=output == "json")


@command(
    "explain shop/order-worker --at 03:12",
    "explain shop/order-worker --last-change",
    "explain shop/order-worker --since 1h --url http://127.0.0.1:9191",
)
def explain(
    target: Annotated[str, target_argument(f"{ONE_TARGET}.")],
    options: ExplanationOptions,
    output: Output = "text",
    *,
    place: SourceOptions,
) -> int:
    """Explain what held for a target at any instant, and why.

    Of the decision that held, by default now: each step, what differs from the decision before,
    until when it held, what would have had to be different, and who else wrote. It reads the state
    directory of --config or /var/lib/autoscaler; where nothing is recorded there, or with --url, it
    asks the daemon. Times are of the local zone (TZ), such as 10m, '10m ago', 03:12, 'monday 9:00'
    or 2026-01-31T03:12Z.

    Exit codes: 0 explained, 1 nothing is recorded, or it cannot be read, or --recompute came to
    another result, 2 bad arguments or configuration.
    """
    from autoscaler.cli.recorded import print_explanation

    return print_explanation(target, place, options, as_json=output == "json")


@command("history", "history shop/order-worker --since yesterday --until 03:12")
def history(
    targets: TargetNames = None,
    since: Since = "24h",
    until: Annotated[str, time_option("Until when.")] = "now",
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="At most so many.")] = 1000,
    output: Output = "text",
    *,
    place: SourceOptions,
) -> int:
    """Print a line for each change, of some targets or of all.

    That is each decision in which something changed, the last one last. It reads what `explain`
    reads, and takes times as that does. In a pipe the columns are separated by tabs: time, target,
    counts, state, sentence.

    Exit codes: 0 shown, 1 it cannot be read, 2 bad arguments or configuration.
    """
    from autoscaler.cli.recorded import print_history

    as_json = output == "json"
    span = {"since": since, "until": until}
    return print_history(targets or [], place, **span, limit=limit, as_json=as_json)


@command("agreement", "agreement shop/web --since 7d")
def agreement(
    targets: TargetNames = None,
    since: Since = "7d",
    output: Output = "text",
    *,
    place: SourceOptions,
) -> int:
    """Print how targets in shadow agree with the HPAs beside them, and why they do not.

    That is the share of time in which both want the same count, at once or within one period, the
    times in which they do not with their causes, and whether a target is ready to go over.

    Exit codes: 0 each is ready, 1 one is not, or it cannot be read, 2 bad arguments or
    configuration.
    """
    from autoscaler.cli.showing_status import print_agreement

    as_json = output == "json"
    return print_agreement(targets or [], place, since=since, as_json=as_json)


@command("release", "release -c autoscaler.yaml --server mimir")
def release(
    server: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Only the targets of this Prometheus server; the one without a name is `default`.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        config_option(
            "The YAML file of the daemon, for its `stateDirectory`; default /var/lib/autoscaler."
        ),
    ] = None,
) -> int:
    """Let targets go down that the scale-down breaker holds.

    It asks the running daemon by its state directory, as a user that may write there. The breaker
    does not trip again for as long as it holds.

    Exit codes: 0 released, or nothing is held, 1 the daemon cannot be asked, 2 bad configuration,
    or no such server.
    """
    from autoscaler.cli.releasing import release as release_held

    return release_held(server, config)


@command(
    "pause shop/order-worker --for 2h",
    "pause shop/order-worker --replicas 5",
    "pause shop/order-worker --only scale-down",
)
def pause(
    targets: Workloads,
    replicas: Annotated[
        int | None,
        typer.Option(min=0, max=2**31 - 1, help="Go to so many replicas, and stay there."),
    ] = None,
    only: Annotated[
        Literal["scale-down", "scale-up"] | None, typer.Option(help="Pause only one direction.")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--for", metavar="DURATION", parser=seconds_of, help="End by itself, such as after 2h."
        ),
    ] = None,
    config: _ConfigOfTargets = None,
    context: Context = None,
) -> int:
    """Pause targets: nothing is scaled until they are resumed.

    It annotates the workloads, with your kubeconfig and your right to patch them; the daemon
    sees that at its next sync. A new pause replaces the one before.

    Exit codes: 0 all are paused, 1 some could not be, 2 bad arguments or configuration.
    """
    from autoscaler.cli.pausing import pause as pause_all

    if replicas is not None and only is not None:
        raise typer.BadParameter("it cannot go with --replicas", param_hint="'--only'")
    return pause_all(targets, config, context, only=only, replicas=replicas, seconds=seconds)


@command("resume shop/order-worker", "resume -c autoscaler.yaml shop/order-worker --override")
def resume(
    targets: Workloads,
    override: Annotated[bool, flag("override", "Also if the configuration pauses them.")] = False,
    config: _ConfigOfTargets = None,
    context: Context = None,
) -> int:
    """Resume targets that are paused.

    It removes the annotations that pause them.

    Exit codes: 0 all are resumed, 1 some could not be, or the configuration of -c pauses them,
    2 bad arguments or configuration.
    """
    from autoscaler.cli.pausing import resume as resume_all

    return resume_all(targets, config, context, override=override)
