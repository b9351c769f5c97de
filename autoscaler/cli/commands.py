"""The commands that run a daemon, and that show or change its state."""

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
    ObjectFiles,
    Output,
    Since,
    SourceOptions,
    TargetNames,
    Workloads,
    config_option,
    flag,
    refuse,
    seconds_of,
    target_argument,
    time_option,
)
from autoscaler.daemon import LogFormat, LogLevel

_ConfigOfTargets = Annotated[
    Path | None, config_option(f"{TARGETS_FILE} Without it NAMESPACE/NAME is a Deployment.")
]

_NUMBER = "The shard of this process, from 0; default: its ordinal in a StatefulSet."
_SHARD = typer.Option(min=0, metavar="N", envvar="AUTOSCALER_SHARD", help=_NUMBER)


@command("run -c /etc/autoscaler/autoscaler.yaml")
def run(
    config: ConfigFile,
    log_level: Annotated[LogLevel, typer.Option(help="The lowest level to log.")] = LogLevel.INFO,
    log_format: Annotated[
        LogFormat, typer.Option(help="auto is console on a terminal and json elsewhere.")
    ] = LogFormat.AUTO,
    shadow: Annotated[bool, flag("shadow", "Decide everything, write nothing.")] = False,
    shard: Annotated[int | None, _SHARD] = None,
) -> int:
    """Run the daemon until SIGTERM or SIGINT.

    Reloads the configuration on SIGHUP and when a file changes. With --shadow all targets have
    `mode: shadow` and no Lease is taken.

    Exit codes: 0 stopped by a signal, 1 cannot start, 2 invalid configuration.
    """
    import signal

    for number in (signal.SIGTERM, signal.SIGINT):
        # Before the daemon installs its own handlers there is nothing to finish.
        signal.signal(number, lambda *_: sys.exit(0))
    # The files are read after this, so that an earlier SIGHUP needs no reload.
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
            metavar="FILE", envvar=CONFIG_VARIABLE, help="Files to check; - is standard input."
        ),
    ],
    prometheus: Annotated[
        bool, flag("prometheus", "Run every query once and show its results.")
    ] = False,
    strict: Annotated[bool, flag("strict", "Exit with 2 on any warning.")] = False,
    config: Annotated[
        Path | None, config_option("The configuration whose `objects` limits PromqlAutoscalers.")
    ] = None,
) -> int:
    """Check files of configurations or PromqlAutoscalers, and print all errors and warnings.

    Included files are checked too.

    Exit codes: 0 valid, 1 Prometheus did not answer, 2 invalid file, a query that Prometheus
    refuses, or a warning with --strict.
    """
    from autoscaler.cli.validating import validate_files

    return validate_files(files, config, ask_prometheus=prometheus, strict=strict)


@command("plan -c autoscaler.yaml", "plan --explain shop/order-worker")
def plan(
    config: ConfigFile,
    targets: TargetNames = None,
    objects: ObjectFiles = None,
    explain: Annotated[bool, flag("explain", "Print every step of each decision.")] = False,
    output: Output = "text",
    *,
    daemon: DaemonOptions,
) -> int:
    """Sync once, write nothing, and print what a daemon would do.

    Reads the cluster and Prometheus. The history comes from the daemon at --url, at `listen` of
    the configuration, or from its `stateDirectory`; the first line names the source. Without a
    history it decides like a daemon that has just started: no scale-down within the first
    stabilization window.

    Exit codes: 0 all targets decided, 1 some failed, a right to write is missing or the daemon at
    --url did not answer, 2 invalid configuration.
    """
    from autoscaler.cli.planning import print_plan
    from autoscaler.cli.sources import daemon_at

    asked = None if daemon.url is None else daemon_at(daemon, daemon.url)
    as_json = output == "json"
    return print_plan(config, targets or [], asked, objects, explain=explain, as_json=as_json)


@command("status", "status shop/order-worker")
def status(
    targets: TargetNames = None,
    output: Output = "text",
    *,
    place: SourceOptions,
) -> int:
    """Show the state of each target.

    Asks the daemon at --url, at `listen` of --config, or at http://127.0.0.1:9191. If no daemon
    answers, it shows the last state in the state directory. In a pipe the columns are separated by
    tabs. The last lines show components of the daemon that are not ok.

    Exit codes: 0 shown, 1 no daemon and no record, 2 bad arguments or unreadable --config.
    """
    from autoscaler.cli.showing_status import print_status

    return print_status(targets or [], place, as_json=output == "json")


@command(
    "explain shop/order-worker --at 03:12",
    "explain shop/order-worker --last-change",
    "explain shop/order-worker --since 1h",
)
def explain(
    target: Annotated[str, target_argument(f"{ONE_TARGET}.")],
    options: ExplanationOptions,
    output: Output = "text",
    *,
    place: SourceOptions,
) -> int:
    """Explain a decision: each step, what changed, and what would change it.

    Reads the state directory of --config or /var/lib/autoscaler; if there is no record, or with
    --url, it asks the daemon. Times are in the local zone (TZ), such as 10m, '10m ago', 03:12,
    'monday 9:00' or 2026-01-31T03:12Z.

    Exit codes: 0 explained, 1 no readable record, or --recompute has another result, 2 bad
    arguments or configuration.
    """
    from autoscaler.cli.recorded import print_explanation

    return print_explanation(target, place, options, as_json=output == "json")


@command("history", "history shop/order-worker --since yesterday --until 03:12")
def history(
    targets: TargetNames = None,
    since: Since = "24h",
    until: Annotated[str, time_option("End time.")] = "now",
    limit: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Maximum number of changes.")
    ] = 1000,
    output: Output = "text",
    *,
    place: SourceOptions,
) -> int:
    """Print one line per change: time, target, replicas, state and reason.

    The newest change is last. It reads the same sources as `explain`. In a pipe the columns are
    separated by tabs.

    Exit codes: 0 shown, 1 no readable record, 2 bad arguments or configuration.
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
    """Compare targets in shadow with the HPAs that control them.

    Prints the share of time in which both want the same replicas, at once or within one period,
    the disagreements with their causes, and whether a target is ready for `adopt`.

    Exit codes: 0 all are ready, 1 some are not or no readable record, 2 bad arguments or
    configuration.
    """
    from autoscaler.cli.showing_status import print_agreement

    as_json = output == "json"
    return print_agreement(targets or [], place, since=since, as_json=as_json)


@command(
    "pause shop/order-worker --for 2h",
    "pause shop/order-worker --replicas 5",
    "pause shop/order-worker --only scale-down",
)
def pause(
    targets: Workloads,
    replicas: Annotated[
        int | None,
        typer.Option(min=0, max=2**31 - 1, help="Scale to this number of replicas and stay there."),
    ] = None,
    only: Annotated[
        Literal["scale-down", "scale-up"] | None, typer.Option(help="Pause one direction only.")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--for",
            metavar="DURATION",
            parser=seconds_of,
            help="End the pause after this time, such as 2h.",
        ),
    ] = None,
    config: _ConfigOfTargets = None,
    context: Context = None,
) -> int:
    """Pause targets until they are resumed.

    Annotates the workloads with your kubeconfig and rights; the daemon follows at its next sync. A
    new pause replaces the previous one.

    Exit codes: 0 paused, 1 some could not be paused, 2 bad arguments or configuration.
    """
    from autoscaler.cli.pausing import pause as pause_all

    if replicas is not None and only is not None:
        raise typer.BadParameter("cannot be used with --replicas", param_hint="'--only'")
    return pause_all(targets, config, context, only=only, replicas=replicas, seconds=seconds)


@command(
    "resume shop/order-worker",
    "resume shop/order-worker --force",
    "resume --breaker",
)
def resume(
    targets: Annotated[list[str] | None, target_argument(f"{ONE_TARGET}.")] = None,
    force: Annotated[bool, flag("force", "Also if the configuration pauses the target.")] = False,
    breaker: Annotated[
        bool, flag("breaker", "Release the targets that the scale-down breaker holds.")
    ] = False,
    server: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With --breaker: only the targets of this Prometheus server; the server without "
            "a name is `default`.",
        ),
    ] = None,
    config: _ConfigOfTargets = None,
    context: Context = None,
) -> int:
    """Resume paused targets, or targets that the breaker holds.

    Removes the annotations that pause the targets. --breaker uses the daemon's state directory,
    so run it as the daemon's user. The breaker then does not trip for one `hold`.

    Exit codes: 0 resumed, 1 some could not be resumed, 2 bad arguments or configuration.
    """
    refuse(
        {
            "name a target or set --breaker": not targets and not breaker,
            "--breaker releases all targets of a server: remove the targets, --force and "
            "--context": breaker and (targets or force or context),
            "--server needs --breaker": server is not None and not breaker,
        }
    )
    if breaker:
        from autoscaler.cli.releasing import release

        return release(server, config)
    from autoscaler.cli.pausing import resume as resume_all

    return resume_all(targets or [], config, context, force=force)
