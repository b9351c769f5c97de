"""The commands, their arguments and their help.

A command imports its work when it runs, so that `--help` answers at once.
"""

import functools
import inspect
import os
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

import typer
from typer.core import TyperCommand

from autoscaler import __version__
from autoscaler.cli.target_names import complete
from autoscaler.daemon import LogFormat, LogLevel

if TYPE_CHECKING:
    from autoscaler.cli.sources import SourceOptions
    from autoscaler.lab.rehearsing import RehearsalOptions
    from autoscaler.lab.report_page import ReportOptions

app = typer.Typer(
    name="autoscaler",
    help="Scales Kubernetes workloads on Prometheus metrics, exactly as the "
    "HorizontalPodAutoscaler would, and explains every decision.",
    no_args_is_help=True,
    rich_markup_mode=None,  # the import of rich is too slow for --help
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_CONFIG = "AUTOSCALER_CONFIG"
"""The environment variable with the configuration file, where the command line names none."""

_URL_VARIABLE = "AUTOSCALER_URL"
"""The environment variable with the address of the daemon."""

_RECOMPUTE = "Decide again from what was read then, and compare; of a state directory only."
_GROUP = "To reach the daemon"
_ONE_TARGET = "NAMESPACE/NAME or NAMESPACE/KIND/NAME"
_TARGETS_FILE = "The YAML file of targets."


def _config(help_text: str) -> Any:
    return typer.Option("--config", "-c", metavar="FILE", envvar=_CONFIG, help=help_text)


def _flag(name: str, help_text: str) -> Any:
    return typer.Option(f"--{name}", help=help_text)


def _time(help_text: str) -> Any:
    return typer.Option(metavar="TIME", help=help_text)


def _names(help_text: str) -> Any:
    return typer.Argument(
        metavar="TARGET", help=help_text, autocompletion=complete, show_default=False
    )


ConfigFile = Annotated[Path, _config(_TARGETS_FILE)]
TargetNames = Annotated[list[str] | None, _names(f"{_ONE_TARGET}, default all.")]
Workloads = Annotated[list[str], _names(f"{_ONE_TARGET}.")]
ConfigOfTargets = Annotated[
    Path | None, _config(f"{_TARGETS_FILE} Without it NAMESPACE/NAME is a Deployment.")
]
Context = Annotated[str | None, typer.Option(help="The context of the kubeconfig.")]
Output = Annotated[
    Literal["text", "json"],
    typer.Option("--output", "-o", help="text, or json with everything."),
]


class GroupedCommand(TyperCommand):
    """A command whose options stand below their `rich_help_panel`, without rich."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options, a section for each group."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                usual = "Arguments" if param.param_type_name == "argument" else "Options"
                group = getattr(param, "rich_help_panel", None) or usual
                sections.setdefault(group, []).append(record)
        for name, records in sections.items():
            with formatter.section(name):
                formatter.write_dl(records)


def _command(*examples: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a command, with examples of its arguments; its first line is listed."""
    shown = ", ".join(f"autoscaler {one}" for one in examples)
    epilog = f"Example{'s' if len(examples) > 1 else ''}: {shown}"

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        line = (command.__doc__ or "").partition("\n")[0]
        # Where the name is a word of Python, the function has _ behind it.
        name = command.__name__.rstrip("_")
        return app.command(name, cls=GroupedCommand, short_help=line, epilog=epilog)(command)

    return decorate


def _print_version(requested: bool) -> None:  # noqa: FBT001 - the signature of a typer callback
    if requested:
        typer.echo(f"autoscaler {__version__}")
        raise typer.Exit


def _daemon_url(url: str | None) -> str | None:
    parts = urlsplit(url or "http://none")
    if parts.scheme not in {"http", "https"} or not parts.hostname or set(url or "") & set("@?#"):
        raise typer.BadParameter("it must be an address such as http://127.0.0.1:9191")
    return url and url.rstrip("/")


def _prometheus_url(url: str | None) -> str | None:
    from pydantic import ValidationError

    from autoscaler.config.prometheus_connection import PrometheusSettings

    try:
        return url and PrometheusSettings(url=url).url
    except ValidationError as error:
        raise typer.BadParameter(error.errors()[0]["msg"]) from None


def _option(help_text: str, metavar: str = "FILE", **more: Any) -> Any:
    return typer.Option(metavar=metavar, rich_help_panel=_GROUP, help=help_text, **more)


_DIRECTORY = "The state directory to read; default that of --config."
_URL = "The running daemon to ask, such as http://127.0.0.1:9191."
_TO_REACH_A_DAEMON: Mapping[str, Any] = {
    "url": Annotated[str | None, _option(_URL, "URL", callback=_daemon_url, envvar=_URL_VARIABLE)],
    "ca_file": Annotated[Path | None, _option("The CA of its certificate, PEM.")],
    "cert_file": Annotated[Path | None, _option("Your client certificate, PEM.")],
    "key_file": Annotated[Path | None, _option("The key of that, PEM.")],
    "token_file": Annotated[Path | None, _option("The file with your bearer token.")],
    "user": Annotated[str | None, _option("Your user name.", "NAME")],
    "password_file": Annotated[Path | None, _option("The file with your password.")],
}
_TO_ADOPT: Mapping[str, Any] = {
    "config": Annotated[Path | None, _config(_TARGETS_FILE)],
    **_TO_REACH_A_DAEMON,
}
_TO_READ_DECISIONS: Mapping[str, Any] = {
    "config": Annotated[Path | None, _config("The YAML file of the daemon.")],
    "state_directory": Annotated[
        Path | None, typer.Option(metavar="DIR", help=_DIRECTORY, exists=True)
    ],
    **_TO_REACH_A_DAEMON,
}


def _with_place(options: Mapping[str, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command these options, which it gets as one argument: the `place` to read."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**given: Any) -> None:
            options_given = {name: given.pop(name) for name in options}
            from_environment = os.environ.get(_URL_VARIABLE, "").rstrip("/")
            if options_given.get("state_directory") and options_given["url"] == from_environment:
                options_given["url"] = None  # an option on the command line wins
            place = _place(**options_given)
            command(**given, place=place)

        return _with_options(run, command, {"place"}, options)

    return decorate


def _with_options(
    run: Callable[..., None],
    command: Callable[..., None],
    as_one: Collection[str],
    options: Mapping[str, Any],
    defaults: Mapping[str, object] | None = None,
) -> Callable[..., None]:
    """Let ``run`` have these options in place of those arguments of a command."""
    own = inspect.signature(command)
    kept = [value for value in own.parameters.values() if value.name not in as_one]
    parameters = kept + [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=(defaults or {}).get(name),
            annotation=kind,
        )
        for name, kind in options.items()
    ]
    # What typer reads.
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _duration(text: str) -> float:
    from autoscaler.config import durations

    try:
        seconds = durations.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if not seconds:
        raise typer.BadParameter("it must be longer than 0")
    return seconds


def _place(
    url: str | None,
    config: Path | None = None,
    state_directory: Path | None = None,
    **sign_in: Any,
) -> "SourceOptions":
    """Return where to read; raises BadParameter for options that do not go together."""
    from autoscaler.cli.sources import SourceOptions
    from autoscaler.daemon.client import Daemon

    given = {name for name, one in sign_in.items() if one is not None}
    for is_wrong, why in (
        (given and state_directory, "certificates, tokens and passwords are for a daemon"),
        (given and not (url or config), "certificates, tokens and passwords are for --url or -c"),
        (url and state_directory, "give --url or --state-directory"),
        (len(given & {"user", "password_file"}) == 1, "--user and --password-file go together"),
        (given >= {"user", "token_file"}, "give --token-file or --user"),
        (given & {"key_file", "cert_file"} == {"key_file"}, "--key-file goes with --cert-file"),
    ):
        if is_wrong:
            raise typer.BadParameter(why)
    return SourceOptions(config, state_directory, url, Daemon("", **sign_in))


def _exit_at_once(_number: int, _frame: object) -> None:
    sys.exit(0)


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Define the options before a command."""


@_command("run -c /etc/autoscaler/autoscaler.yaml")
def run(
    config: ConfigFile,
    log_level: Annotated[LogLevel, typer.Option(help="The least severe lines.")] = LogLevel.INFO,
    log_format: Annotated[
        LogFormat, typer.Option(help="auto: console on a terminal, JSON elsewhere.")
    ] = LogFormat.AUTO,
    shadow: Annotated[
        bool,
        typer.Option("--shadow", help="Decide everything and write nothing, beside what scales."),
    ] = False,
) -> None:
    """Run the daemon until SIGTERM or SIGINT.

    It reads its configuration again on SIGHUP, and when a file of it changes. With --shadow
    every target is in shadow (`mode: shadow`), and no Lease is taken.

    Exit codes: 0 stopped by a signal, 1 cannot start, 2 bad
    configuration.
    """
    import signal

    for number in (signal.SIGTERM, signal.SIGINT):
        # Before the daemon installs its own handlers there is nothing to finish.
        signal.signal(number, _exit_at_once)
    # The files are read after this, so that a SIGHUP until then needs no reload.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    from autoscaler.cli.output import CommandError, exit_code
    from autoscaler.config import load
    from autoscaler.daemon import logs
    from autoscaler.daemon.service import serve
    from autoscaler.kubernetes import ConnectError
    from autoscaler.web.listener import ListenError

    @exit_code
    def serve_until_a_signal() -> int:
        loaded = load(config)
        logs.configure(log_level, log_format)
        try:
            serve(loaded, shadow=shadow)
        except (ConnectError, ListenError) as error:
            raise CommandError(f"autoscaler cannot start: {error}") from None
        return 0

    sys.exit(serve_until_a_signal())


@_command("validate --prometheus /etc/autoscaler/autoscaler.yaml")
def validate(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", envvar=_CONFIG, help="YAML files to check; - is standard input."
        ),
    ],
    prometheus: Annotated[
        bool, _flag("prometheus", "Ask Prometheus every query once, and show what comes back.")
    ] = False,
    strict: Annotated[bool, _flag("strict", "Exit with 2 where there is any warning.")] = False,
) -> None:
    """Check configuration files, and print every mistake at once.

    Those that they include are checked too. What is valid but unwise, such as a secret that every
    user may read, is a warning.

    Exit codes: 0 all are valid, 1 Prometheus could not be asked, 2 some are not valid, or
    Prometheus refuses a query, or with --strict there is a warning.
    """
    from autoscaler.cli.validating import validate_files

    sys.exit(validate_files(files, ask_prometheus=prometheus, strict=strict))


@_command(
    "import hpa.yaml keda/ -o autoscaler.yaml",
    "import --from-cluster -A --prometheus http://prometheus:9090 -o autoscaler.yaml",
)
def import_(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE",
            help="Manifests: files, folders of them, or - for standard input.",
            show_default=False,
        ),
    ] = None,
    from_cluster: Annotated[
        bool, _flag("from-cluster", "Read what the cluster has, with your kubeconfig.")
    ] = False,
    namespace: Annotated[
        str | None,
        typer.Option(
            *("--namespace", "-n"),
            help="The namespace to read, and of manifests that name none; else default.",
            show_default=False,
        ),
    ] = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Read all namespaces of the cluster.")
    ] = False,
    context: Context = None,
    adapter_rules: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Rules of prometheus-adapter: values of its chart, its ConfigMap or its "
            "configuration; else those among the manifests, or of the cluster.",
            show_default=False,
        ),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Your Prometheus; it is asked which series rules are for."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            *("--output", "-o"), metavar="FILE", help="The configuration; default standard output."
        ),
    ] = None,
    report: Annotated[
        Literal["text", "json", "markdown"],
        typer.Option(help="What became of each source; on stderr unless there is --output."),
    ] = "text",
    shadow: Annotated[
        bool, _flag("shadow", "All targets have `mode: shadow`, and are never written.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also say what became of each key.")
    ] = False,
    _partial: Annotated[bool, typer.Option("--partial", hidden=True)] = True,
    split: Annotated[
        bool, _flag("split", "One file for each namespace, which the main one includes.")
    ] = False,
    write_secrets: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the secrets that are needed to files there."),
    ] = None,
    force: Annotated[bool, _flag("force", "Write over files that are there already.")] = False,
) -> None:
    """Convert autoscalers of others to a configuration, and report what differs.

    It reads HorizontalPodAutoscalers of every version, ScaledObjects of KEDA and the rules of
    prometheus-adapter. What cannot be carried over stands in the configuration as `undecided`, and
    keeps it from being valid until somebody has decided; the rest is imported.

    Exit codes: 0 all was imported and the configuration is valid, 1 something could not be read,
    asked or written, 2 bad arguments, 3 something was refused or is undecided, or files of
    secrets are missing.
    """
    from autoscaler.migrate.importing import ImportOptions, import_autoscalers

    given = files or []
    for is_wrong, why in (
        (not given and not from_cluster, "name a file, a folder, - or --from-cluster"),
        (all_namespaces and namespace, "give --namespace or --all-namespaces"),
        (not from_cluster and all_namespaces, "--all-namespaces goes with --from-cluster"),
        (not from_cluster and context, "--context goes with --from-cluster"),
        (split and output is None, "--split needs --output"),
        (
            output is not None and output.is_file() and not force,
            f"{output} is there already: name another file, or write over it with --force",
        ),
    ):
        if is_wrong:
            raise typer.BadParameter(why)
    options = ImportOptions(
        from_cluster=from_cluster,
        namespace=namespace,
        all_namespaces=all_namespaces,
        context=context,
        adapter_rules=tuple(adapter_rules or ()),
        prometheus=_prometheus_url(prometheus),
        output=output,
        report=report,
        shadow=shadow,
        verbose=verbose,
        split=split,
        write_secrets=write_secrets,
        force=force,
    )
    sys.exit(import_autoscalers(given, options))


@_command("plan -c autoscaler.yaml", "plan -c autoscaler.yaml --explain shop/order-worker")
@_with_place(_TO_REACH_A_DAEMON)
def plan(
    config: ConfigFile,
    targets: TargetNames = None,
    explain: Annotated[bool, _flag("explain", "Tell each target's whole decision.")] = False,
    output: Output = "text",
    *,
    place: "SourceOptions",
) -> None:
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

    daemon = None if place.url is None else place.at(place.url)
    as_json = output == "json"
    sys.exit(print_plan(config, targets or [], daemon, explain=explain, as_json=as_json))


@_command("status", "status -c autoscaler.yaml shop/order-worker")
@_with_place(_TO_READ_DECISIONS)
def status(
    targets: TargetNames = None,
    output: Output = "text",
    *,
    place: "SourceOptions",
) -> None:
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

    sys.exit(print_status(targets or [], place, as_json=output == "json"))


@_command(
    "explain shop/order-worker --at 03:12",
    "explain shop/order-worker --last-change",
    "explain shop/order-worker --since 1h --url http://127.0.0.1:9191",
)
@_with_place(_TO_READ_DECISIONS)
def explain(
    target: Annotated[str, _names(f"{_ONE_TARGET}.")],
    at: Annotated[
        str | None, _time("The instant, such as 03:12, '10m ago' or 'yesterday 18:00'.")
    ] = None,
    last_change: Annotated[
        bool, _flag("last-change", "The last decision that changed the count.")
    ] = False,
    since: Annotated[str | None, _time("Each change since then, such as 1h.")] = None,
    recompute: Annotated[bool, _flag("recompute", _RECOMPUTE)] = False,
    output: Output = "text",
    *,
    place: "SourceOptions",
) -> None:
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

    if sum((at is not None, last_change, since is not None)) > 1:
        raise typer.BadParameter("give only one of --at, --last-change and --since")
    code = print_explanation(
        target,
        place,
        at=at,
        last_change=last_change,
        since=since,
        again=recompute,
        as_json=output == "json",
    )
    sys.exit(code)


@_command("history", "history shop/order-worker --since yesterday --until 03:12")
@_with_place(_TO_READ_DECISIONS)
def history(
    targets: TargetNames = None,
    since: Annotated[str, _time("From when on, such as 1h or 'yesterday 18:00'.")] = "24h",
    until: Annotated[str, _time("Until when.")] = "now",
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="At most so many.")] = 1000,
    output: Output = "text",
    *,
    place: "SourceOptions",
) -> None:
    """Print a line for each change, of some targets or of all.

    That is each decision in which something changed, the last one last. It reads what `explain`
    reads, and takes times as that does. In a pipe the columns are separated by tabs: time, target,
    counts, state, sentence.

    Exit codes: 0 shown, 1 it cannot be read, 2 bad arguments or configuration.
    """
    from autoscaler.cli.recorded import print_history

    as_json = output == "json"
    span = {"since": since, "until": until}
    sys.exit(print_history(targets or [], place, **span, limit=limit, as_json=as_json))


_SOURCE = "Where the data come from"


def _of_source(help_text: str, metavar: str | None = None, **more: Any) -> Any:
    return typer.Option(metavar=metavar, rich_help_panel=_SOURCE, help=help_text, **more)


_TO_REHEARSE: Mapping[str, Any] = {
    "begin": Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="When it begins, as `2d ago`.")
    ],
    "end": Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="When it ends; default now.")
    ],
    "targets": Annotated[
        list[str],
        typer.Option(
            "--target",
            "-t",
            metavar="TARGET",
            help=f"{_ONE_TARGET}; default all.",
            autocompletion=complete,
        ),
    ],
    "from_record": Annotated[
        bool,
        typer.Option("--from-record", rich_help_panel=_SOURCE, help="What a daemon has recorded."),
    ],
    "state_directory": Annotated[
        Path | None, _of_source("The directory of the record; default that of --config.", "DIR")
    ],
    "csv": Annotated[
        list[str],
        _of_source(
            "Samples in a file, `t,value` or `t,value,replicas`; as NAME=FILE those of a query or "
            "metric. May be given several times.",
            "FILE",
        ),
    ],
    "step": Annotated[
        str | None, _of_source("Between two points of Prometheus; default the sync period.", "TIME")
    ],
    "cache": Annotated[
        Path | None,
        _of_source(
            "Where answers of Prometheus are kept, so that they are asked once; default "
            "~/.cache/autoscaler/ranges.",
            "DIR",
        ),
    ],
    "no_cache": Annotated[
        bool, typer.Option("--no-cache", help="Keep no answers, and use none that are kept.")
    ],
    "assume": Annotated[
        Path | None, _of_source("What is assumed of loads and pods, YAML.", "FILE")
    ],
    "processes": Annotated[
        int | None, typer.Option(min=1, help="In how many processes; default one for each core.")
    ],
}
_TO_REPORT: Mapping[str, Any] = {
    "report": Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a report, one HTML file that opens anywhere."),
    ],
    "force": Annotated[bool, typer.Option("--force", help="Write over a report that is there.")],
}
_OF_A_REHEARSAL: Mapping[str, Any] = {
    "targets": (),
    "csv": (),
    "from_record": False,
    "no_cache": False,
    "force": False,
}


def _with_rehearsal(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a rehearsal, as one ``options``."""

    @functools.wraps(command)
    def run(**given: Any) -> None:
        from autoscaler.lab.rehearsing import RehearsalOptions
        from autoscaler.lab.report_page import ReportOptions

        named = {name: given.pop(name) for name in _TO_REHEARSE}
        named["step"] = None if named["step"] is None else _duration(named["step"])
        if not named["processes"]:
            del named["processes"]
        of_report = {name: given.pop(name) for name in _TO_REPORT}
        command(**given, options=RehearsalOptions(**named), report=ReportOptions(**of_report))

    options = {**_TO_REHEARSE, **_TO_REPORT}
    return _with_options(run, command, {"options", "report"}, options, _OF_A_REHEARSAL)


@_command("replay -c autoscaler.yaml --from '7d ago'", "replay -c autoscaler.yaml --csv load.csv")
@_with_rehearsal
def replay(
    config: ConfigFile,
    output: Output = "text",
    *,
    options: "RehearsalOptions",
    report: "ReportOptions",
) -> None:
    """Replay a time that has passed as this configuration would have gone through it.

    The data are what its Prometheus servers have, what a daemon has recorded, or files. Pods that
    are created become ready later, readings follow the count, and every decision is that of a
    daemon. How the load of each metric follows the count is told: as recorded, shared by the pods
    that are ready, or a queue; --assume states it.

    Ctrl-C leaves what is done.

    Exit codes: 0 rehearsed, 1 some targets could not be, or it was interrupted, 2 bad
    configuration or arguments.
    """
    from autoscaler.lab.replaying import replay as run

    sys.exit(run(config, options, report, as_json=output == "json"))


@_command("compare -c now.yaml -c new.yaml --from '7d ago'")
@_with_rehearsal
def compare(
    configs: Annotated[
        list[Path],
        typer.Option("--config", "-c", metavar="FILE", help="Two of them or more."),
    ],
    output: Output = "text",
    *,
    options: "RehearsalOptions",
    report: "ReportOptions",
) -> None:
    """Replay one time under several configurations, side by side.

    Each measure of each target is told with which is better, and on how many of the days. The
    demand is counted in pods of the first configuration.

    Exit codes: 0 compared, 1 some targets could not be rehearsed, 2 bad configuration or arguments.
    """
    from autoscaler.lab.comparing import compare as run

    sys.exit(run(configs, options, report, as_json=output == "json"))


@_command(
    "tune shop/web -c autoscaler.yaml --from '14d ago' --shortage-cost 10 --replica-hour-cost 1",
    "tune shop/web -c autoscaler.yaml --from '14d ago' --most-shortage 0.1%",
)
@_with_rehearsal
def tune(
    target: Annotated[str, _names(f"{_ONE_TARGET}.")],
    config: ConfigFile,
    shortage_cost: Annotated[
        float, typer.Option(min=0.0, help="What an hour of one missing pod costs.")
    ] = 10.0,
    replica_hour_cost: Annotated[
        float, typer.Option(min=0.0, help="What an hour of one replica costs.")
    ] = 1.0,
    most_shortage: Annotated[
        str | None,
        typer.Option(
            metavar="PERCENT", help="In place of costs: so much of the time may be short."
        ),
    ] = None,
    space: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The values that may be tried, YAML.")
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="How many candidates are tried.")] = 100,
    seed: Annotated[int, typer.Option(help="Of the search: the same gives the same.")] = 1,
    output: Output = "text",
    *,
    options: "RehearsalOptions",
    report: "ReportOptions",
) -> None:
    """Search for better settings of one target, on its history.

    It tells which candidates none is better than in shortage, replica-hours and changes together,
    and which one of them is preferred by the costs. They are chosen by the first half of the days
    and judged on the others, and the configuration as it is stands beside them. It needs optuna,
    which requirements-rehearsal.lock has.

    Ctrl-C leaves the best so far.

    Exit codes: 0 searched, 1 the target could not be rehearsed, or it was interrupted, 2 bad
    configuration or arguments.
    """
    from autoscaler.lab.engine.tuning import Preference
    from autoscaler.lab.tuning import Search
    from autoscaler.lab.tuning import tune as run

    preference = Preference(shortage_cost, replica_hour_cost, _percentage(most_shortage))
    wanted = Search(preference, space, trials, seed)
    sys.exit(run(target, config, options, wanted, report, as_json=output == "json"))


def _percentage(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 1.0:
        raise typer.BadParameter("--most-shortage is a percentage such as 0.1%")
    return share


@_command("agreement", "agreement shop/web --since 7d")
@_with_place(_TO_READ_DECISIONS)
def agreement(
    targets: TargetNames = None,
    since: Annotated[str, _time("From when on, such as 1h or 'yesterday 18:00'.")] = "7d",
    output: Output = "text",
    *,
    place: "SourceOptions",
) -> None:
    """Print how targets in shadow agree with the HPAs beside them, and why they do not.

    That is the share of time in which both want the same count, at once or within one period, the
    times in which they do not with their causes, and whether a target is ready to go over.

    Exit codes: 0 each is ready, 1 one is not, or it cannot be read, 2 bad arguments or
    configuration.
    """
    from autoscaler.cli.agreeing import print_agreement

    as_json = output == "json"
    sys.exit(print_agreement(targets or [], place, since=since, as_json=as_json))


@_command("release", "release -c autoscaler.yaml --server mimir")
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
        _config(
            "The YAML file of the daemon, for its `stateDirectory`; default /var/lib/autoscaler."
        ),
    ] = None,
) -> None:
    """Let targets go down that the scale-down breaker holds.

    It asks the running daemon by its state directory, as a user that may write there. The breaker
    does not trip again for as long as it holds.

    Exit codes: 0 released, or nothing is held, 1 the daemon cannot be asked, 2 bad configuration,
    or no such server.
    """
    from autoscaler.cli.releasing import release as release_held

    sys.exit(release_held(server, config))


@_command(
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
            "--for", metavar="DURATION", parser=_duration, help="End by itself, such as after 2h."
        ),
    ] = None,
    config: ConfigOfTargets = None,
    context: Context = None,
) -> None:
    """Pause targets: nothing is scaled until they are resumed.

    It annotates the workloads, with your kubeconfig and your right to patch them; the daemon
    sees that at its next sync. A new pause replaces the one before.

    Exit codes: 0 all are paused, 1 some could not be, 2 bad arguments or configuration.
    """
    from autoscaler.cli.pausing import pause as pause_all

    if replicas is not None and only is not None:
        raise typer.BadParameter("it cannot go with --replicas", param_hint="'--only'")
    sys.exit(pause_all(targets, config, context, only=only, replicas=replicas, seconds=seconds))


@_command("resume shop/order-worker", "resume -c autoscaler.yaml shop/order-worker --override")
def resume(
    targets: Workloads,
    override: Annotated[bool, _flag("override", "Also if the configuration pauses them.")] = False,
    config: ConfigOfTargets = None,
    context: Context = None,
) -> None:
    """Resume targets that are paused.

    It removes the annotations that pause them.

    Exit codes: 0 all are resumed, 1 some could not be, or the configuration of -c pauses them,
    2 bad arguments or configuration.
    """
    from autoscaler.cli.pausing import resume as resume_all

    sys.exit(resume_all(targets, config, context, override=override))


@_command(
    "adopt shop/order-worker -c autoscaler.yaml",
    "adopt shop/order-worker -c autoscaler.yaml --execute",
    "adopt shop/order-worker -c autoscaler.yaml --back --execute",
)
@_with_place(_TO_ADOPT)
def adopt(
    targets: Workloads,
    context: Context = None,
    execute: Annotated[bool, _flag("execute", "Do it, instead of printing the steps.")] = False,
    back: Annotated[bool, _flag("back", "Give it back to the autoscaler that was.")] = False,
    backup: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder for its manifest [replaced, beside FILE]."),
    ] = None,
    anyway: Annotated[bool, _flag("anyway", "Also where something speaks against it.")] = False,
    *,
    place: "SourceOptions",
) -> None:
    """Go over from a HorizontalPodAutoscaler or KEDA, or back.

    The other autoscaler is saved and deleted, or its ScaledObject paused; the target is live then.
    Nothing moves in between. Without --execute the steps are printed, as commands. With
    it each is done when the one before holds; what was interrupted goes on where it ended.

    It asks the daemon as `status` does, and the cluster with your kubeconfig and your rights.

    Exit codes: 0 done, or printed, 1 it could not be done, or not to the end, 2 bad arguments or
    configuration.
    """
    from autoscaler.migrate.adopting import Wishes
    from autoscaler.migrate.adopting import adopt as adopt_all

    if place.config is None:
        raise typer.BadParameter("give the configuration of the targets with --config FILE")
    sys.exit(adopt_all(targets, place, Wishes(context, backup, execute, back, anyway)))


@_command("test policy-tests/*.yaml", "test --junit report.xml policy-tests/queue.yaml")
def test(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="YAML files of tests.")],
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print each test, and what it assumes.")
    ] = False,
    name: Annotated[
        str | None,
        typer.Option(
            *("--name", "-k"),
            metavar="TEXT",
            help="Only tests whose name has this in it, or is like it with *.",
            show_default=False,
        ),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the results as JUnit XML there.")
    ] = None,
    watch: Annotated[
        bool, _flag("watch", "Run again whenever a file of them changes, until Ctrl-C.")
    ] = False,
) -> None:
    """Run unit tests of scaling policies, as `promtool test rules` runs those of alerts.

    A file names a configuration, what its queries return, and which counts are expected when. The
    decisions are those of the daemon, in a simulated world; nothing is asked and nothing written.

    Exit codes: 0 all hold, 1 some do not, 2 a file is not valid.
    """
    from autoscaler.lab.testing import PolicyTestOptions, run_test_files

    sys.exit(run_test_files(files, PolicyTestOptions(verbose, name, junit, watch)))


@_command("schema > autoscaler.schema.json")
def schema(
    included: Annotated[
        bool, _flag("included", "The schema of a file that `include` names.")
    ] = False,
    tests: Annotated[bool, _flag("tests", "The schema of a file of `autoscaler test`.")] = False,
    replay: Annotated[
        bool, _flag("replay", "The schema of what `autoscaler replay -o json` prints.")
    ] = False,
) -> None:
    """Print the JSON Schema of the configuration file, for editors.

    Those of --included and --tests refer to autoscaler.schema.json, the one of the configuration
    file, in the same folder.
    """
    import json

    from autoscaler.cli.json_schemas import CONFIGURATION, INCLUDED, json_schema
    from autoscaler.lab.policy_tests.schema import TESTS
    from autoscaler.lab.rendering import RehearsalAnswer

    if included + tests + replay > 1:
        raise typer.BadParameter("give one of --included, --tests and --replay")
    of = INCLUDED if included else TESTS if tests else CONFIGURATION
    found = RehearsalAnswer.model_json_schema() if replay else json_schema(of)
    typer.echo(json.dumps(found, indent=2, ensure_ascii=False))


@_command("demo", "demo --context kind-kind")
def demo(
    context: Annotated[
        str | None,
        typer.Option(help="Use this context's cluster instead of the embedded stand-in."),
    ] = None,
    namespace: Annotated[
        str, typer.Option(help="With --context: the namespace to create and remove.")
    ] = "autoscaler-demo",
    clusters: Annotated[
        int,
        typer.Option(min=1, help="Have so many stand-ins, with one daemon for all of them."),
    ] = 1,
    keep: Annotated[
        bool | None,
        typer.Option(
            "--keep/--no-keep",
            help="Whether it then goes on until Ctrl-C; by default it does on a terminal.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Watch a queue fill and drain, and its workers follow.

    It takes about a minute, and begins with the address of the pages, which show this queue and
    other workloads. Needs Prometheus on the PATH. Ctrl-C leaves nothing behind.
    """
    from autoscaler.demo import DemoOptions
    from autoscaler.demo import run as run_demo
    from autoscaler.demo.story import MOST_CLUSTERS

    if clusters > MOST_CLUSTERS:
        raise typer.BadParameter(f"the demo has at most {MOST_CLUSTERS}", param_hint="'--clusters'")
    if context is not None and clusters > 1:
        why = "--clusters makes stand-ins, and --context is a cluster of yours: give only one"
        raise typer.BadParameter(why)
    options = DemoOptions(context=context, namespace=namespace, keep=keep, clusters=clusters)
    sys.exit(run_demo(options))


def main() -> None:
    """Run the command line."""
    app()
