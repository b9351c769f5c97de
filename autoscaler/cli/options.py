"""Options of several commands: targets, configuration, and the source of decisions."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import typer

from autoscaler.cli.target_names import complete

CONFIG_VARIABLE = "AUTOSCALER_CONFIG"
"""The environment variable with the configuration file, used if the command line names none."""

ONE_TARGET = "NAMESPACE/NAME or NAMESPACE/KIND/NAME"
TARGETS_FILE = "The configuration file."


def config_option(help_text: str) -> Any:
    """Return the option for a configuration file."""
    return typer.Option("--config", "-c", metavar="FILE", envvar=CONFIG_VARIABLE, help=help_text)


def flag(name: str, help_text: str) -> Any:
    """Return a flag."""
    return typer.Option(f"--{name}", help=help_text)


def time_option(help_text: str, *names: str) -> Any:
    """Return an option that `times.instant` parses."""
    return typer.Option(*names, metavar="TIME", help=help_text)


def target_argument(help_text: str) -> Any:
    """Return the argument for targets."""
    return typer.Argument(
        metavar="TARGET", help=help_text, autocompletion=complete, show_default=False
    )


ConfigFile = Annotated[Path, config_option(TARGETS_FILE)]
TargetNames = Annotated[list[str] | None, target_argument(f"{ONE_TARGET}; default: all.")]
Workloads = Annotated[list[str], target_argument(f"{ONE_TARGET}.")]
ObjectFiles = Annotated[
    list[Path] | None,
    typer.Option("--objects", metavar="FILE", help="PromqlAutoscalers to add; repeatable."),
]
Since = Annotated[str, time_option("Start time, such as 1h or 'yesterday 18:00'.")]
Context = Annotated[str | None, typer.Option(metavar="NAME", help="The kubeconfig context.")]
Output = Annotated[
    Literal["text", "json"],
    typer.Option("--output", "-o", help="The output format; json has every field."),
]


@dataclass(frozen=True)
class ExplanationOptions:
    """The decisions to explain: one at a time, by default now, or changes."""

    at: Annotated[
        str | None,
        time_option("Explain the decision at this time, such as 03:12 or '10m ago'; default: now."),
    ] = None
    last_change: Annotated[
        bool, flag("last-change", "Explain the last decision that changed the replicas.")
    ] = False
    since: Annotated[
        str | None, time_option("Explain each change since this time, such as 1h.")
    ] = None
    recompute: Annotated[
        bool,
        flag(
            "recompute",
            "Decide again from the recorded inputs and compare; needs a state directory.",
        ),
    ] = False

    def __post_init__(self) -> None:
        several = sum((self.at is not None, self.last_change, self.since is not None)) > 1
        refuse({"set only one of --at, --last-change and --since": several})


def seconds_of(text: str) -> float:
    """Parse a duration above 0, in seconds.  Raises BadParameter."""
    from autoscaler.config import durations

    try:
        seconds = durations.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if not seconds:
        raise typer.BadParameter("must be longer than 0")
    return seconds


def refuse(wrong: Mapping[str, object]) -> None:
    """Raise BadParameter with the first sentence that is true."""
    for sentence, is_so in wrong.items():
        if is_so:
            raise typer.BadParameter(sentence)


def _daemon_url(context: typer.Context, url: str | None) -> str | None:
    source = context.get_parameter_source("url")
    from_environment = source is not None and source.name == "ENVIRONMENT"
    if context.params.get("state_directory") and from_environment:
        return None  # An option on the command line has precedence.
    parts = urlsplit(url or "http://none")
    if parts.scheme not in {"http", "https"} or not parts.hostname or set(url or "") & set("@?#"):
        raise typer.BadParameter("must be a URL such as http://127.0.0.1:9191")
    return url and url.rstrip("/")


def _to_reach(help_text: str, metavar: str = "FILE", **more: Any) -> Any:
    group = "Connection to the daemon"
    return typer.Option(metavar=metavar, rich_help_panel=group, help=help_text, **more)


_URL = _to_reach(
    "URL of the daemon, such as http://127.0.0.1:9191.",
    "URL",
    callback=_daemon_url,
    envvar="AUTOSCALER_URL",
)


@dataclass(frozen=True)
class DaemonOptions:
    """The daemon to ask and its credentials.  Raises BadParameter."""

    url: Annotated[str | None, _URL] = None
    ca_file: Annotated[Path | None, _to_reach("CA certificate of the daemon (PEM).")] = None
    cert_file: Annotated[Path | None, _to_reach("Client certificate (PEM).")] = None
    key_file: Annotated[Path | None, _to_reach("Key of the client certificate (PEM).")] = None
    token_file: Annotated[Path | None, _to_reach("File with a bearer token.")] = None
    user: Annotated[str | None, _to_reach("User name for basic authentication.", "NAME")] = None
    password_file: Annotated[Path | None, _to_reach("File with the password.")] = None

    def __post_init__(self) -> None:
        config, directory = (getattr(self, name, None) for name in ("config", "state_directory"))
        files = self.ca_file, self.cert_file, self.key_file, self.token_file, self.password_file
        given = self.user is not None or any(files)
        what = "certificates, tokens and passwords need a daemon"
        missing = "--url or -c" if isinstance(self, SourceOptions) else "--url"
        refuse(
            {
                what: given and directory,
                f"{what}: set {missing}": given and not (self.url or config),
                "set only one of --url and --state-directory": self.url and directory,
                "set both --user and --password-file": (self.user is None)
                != (self.password_file is None),
                "set only one of --token-file and --user": self.token_file
                and self.user is not None,
                "--key-file needs --cert-file": self.key_file and not self.cert_file,
            }
        )


@dataclass(frozen=True)
class SourceOptions(DaemonOptions):
    """The source of decisions: a running daemon, or a state directory."""

    config: Annotated[Path | None, config_option("The configuration of the daemon.")] = None
    state_directory: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="State directory to read; default: the one of --config.",
            exists=True,
        ),
    ] = None
