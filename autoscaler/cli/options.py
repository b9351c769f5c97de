"""Options that several commands have: targets, configurations, and where decisions are read."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import typer

from autoscaler.cli.target_names import complete

CONFIG_VARIABLE = "AUTOSCALER_CONFIG"
"""The environment variable with the configuration file, where the command line names none."""

ONE_TARGET = "NAMESPACE/NAME or NAMESPACE/KIND/NAME"
TARGETS_FILE = "The YAML file of targets."


def config_option(help_text: str) -> Any:
    """Return the option of a configuration file."""
    return typer.Option("--config", "-c", metavar="FILE", envvar=CONFIG_VARIABLE, help=help_text)


def flag(name: str, help_text: str) -> Any:
    """Return an option that is given or not."""
    return typer.Option(f"--{name}", help=help_text)


def time_option(help_text: str) -> Any:
    """Return an option that `times.instant` reads."""
    return typer.Option(metavar="TIME", help=help_text)


def target_argument(help_text: str) -> Any:
    """Return the argument of a target, or of several."""
    return typer.Argument(
        metavar="TARGET", help=help_text, autocompletion=complete, show_default=False
    )


ConfigFile = Annotated[Path, config_option(TARGETS_FILE)]
TargetNames = Annotated[list[str] | None, target_argument(f"{ONE_TARGET}, default all.")]
Workloads = Annotated[list[str], target_argument(f"{ONE_TARGET}.")]
Since = Annotated[str, time_option("From when on, such as 1h or 'yesterday 18:00'.")]
Context = Annotated[str | None, typer.Option(help="The context of the kubeconfig.")]
Output = Annotated[
    Literal["text", "json"],
    typer.Option("--output", "-o", help="text, or json with everything."),
]


@dataclass(frozen=True)
class ExplanationOptions:
    """Which instants are explained: one, by default now, or those of changes."""

    at: Annotated[
        str | None, time_option("The instant, such as 03:12, '10m ago' or 'yesterday 18:00'.")
    ] = None
    last_change: Annotated[
        bool, flag("last-change", "The last decision that changed the count.")
    ] = False
    since: Annotated[str | None, time_option("Each change since then, such as 1h.")] = None
    recompute: Annotated[
        bool,
        flag(
            "recompute",
            "Decide again from what was read then, and compare; of a state directory only.",
        ),
    ] = False

    def __post_init__(self) -> None:
        several = sum((self.at is not None, self.last_change, self.since is not None)) > 1
        refuse({"give only one of --at, --last-change and --since": several})


def seconds_of(text: str) -> float:
    """Read a duration that is longer than 0.  Raises BadParameter."""
    from autoscaler.config import durations

    try:
        seconds = durations.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if not seconds:
        raise typer.BadParameter("it must be longer than 0")
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
        return None  # an option on the command line wins
    parts = urlsplit(url or "http://none")
    if parts.scheme not in {"http", "https"} or not parts.hostname or set(url or "") & set("@?#"):
        raise typer.BadParameter("it must be an address such as http://127.0.0.1:9191")
    return url and url.rstrip("/")


def _to_reach(help_text: str, metavar: str = "FILE", **more: Any) -> Any:
    group = "To reach the daemon"
    return typer.Option(metavar=metavar, rich_help_panel=group, help=help_text, **more)


_URL = _to_reach(
    "The running daemon to ask, such as http://127.0.0.1:9191.",
    "URL",
    callback=_daemon_url,
    envvar="AUTOSCALER_URL",
)


@dataclass(frozen=True)
class DaemonOptions:
    """Which daemon is asked, and how to sign in.  Raises BadParameter."""

    url: Annotated[str | None, _URL] = None
    ca_file: Annotated[Path | None, _to_reach("The CA of its certificate, PEM.")] = None
    cert_file: Annotated[Path | None, _to_reach("Your client certificate, PEM.")] = None
    key_file: Annotated[Path | None, _to_reach("The key of that, PEM.")] = None
    token_file: Annotated[Path | None, _to_reach("The file with your bearer token.")] = None
    user: Annotated[str | None, _to_reach("Your user name.", "NAME")] = None
    password_file: Annotated[Path | None, _to_reach("The file with your password.")] = None

    def __post_init__(self) -> None:
        config, directory = (getattr(self, name, None) for name in ("config", "state_directory"))
        files = self.ca_file, self.cert_file, self.key_file, self.token_file, self.password_file
        given = self.user is not None or any(files)
        what = "certificates, tokens and passwords are for a daemon"
        missing = "--url or -c" if isinstance(self, SourceOptions) else "--url"
        refuse(
            {
                what: given and directory,
                f"give {missing}: {what}": given and not (self.url or config),
                "give --url or --state-directory": self.url and directory,
                "--user and --password-file go together": (self.user is None)
                != (self.password_file is None),
                "give --token-file or --user": self.token_file and self.user is not None,
                "--key-file goes with --cert-file": self.key_file and not self.cert_file,
            }
        )


@dataclass(frozen=True)
class SourceOptions(DaemonOptions):
    """Where decisions are read: a running daemon, or the record in a state directory."""

    config: Annotated[Path | None, config_option("The YAML file of the daemon.")] = None
    state_directory: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The state directory to read; default that of --config.",
            exists=True,
        ),
    ] = None
