"""`autoscaler status`: what `kubectl get hpa` would print, from a running daemon."""

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import ValidationError

from autoscaler.cli.asking import AskError, ask
from autoscaler.cli.reported import Report, UnknownTargetError
from autoscaler.cli.status_table import lines_for_programs, lines_for_terminal, summary
from autoscaler.config import ConfigError, load
from autoscaler.config.pod_namespace import ANYWHERE, pod_namespace
from autoscaler.config.settings import LISTEN, Address

_PATH = "/api/v1/targets"
_OF_ALL_ADDRESSES = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - replaced


class _AddressError(Exception):
    """There is no address to ask; the text is a sentence."""


def print_status(
    names: Sequence[str], *, url: str | None, config: Path | None, as_json: bool
) -> int:
    """Print how the named targets stand, or all; return the exit code."""
    try:
        address = _of_listener(config) if url is None else _checked(url)
        document = ask(address, _PATH)
        report = _report(document, address).chosen(names)
    except (ConfigError, _AddressError, UnknownTargetError) as error:
        print(error, file=sys.stderr)
        return 2
    except AskError as error:
        print(error, file=sys.stderr)
        return 1
    if as_json:
        print(json.dumps(_raw(document, report), indent=2))
    elif not report.targets:
        print(f"the daemon at {address} has no targets")
    else:
        _print_table(report)
    return 0


def _print_table(report: Report) -> None:
    if sys.stdout.isatty():
        lines = lines_for_terminal(report, shutil.get_terminal_size().columns)
    else:
        lines = lines_for_programs(report)
    for line in lines:
        print(line)
    print(summary(report))


def _of_listener(config: Path | None) -> str:
    """Return the URL at which the daemon of a configuration listens, by default that of any."""
    listen: Address | None = LISTEN
    if config is not None:
        listen = load(config, lambda: pod_namespace() or ANYWHERE).listen  # no Lease is needed
    if listen is None:
        raise _AddressError(f"the daemon of {config} serves no pages, since `listen` is null")
    if listen.port == 0:
        raise _AddressError(
            f"the daemon of {config} listens on any free port (`listen` is {listen}): "
            "give the one that its log names with --url"
        )
    host = _OF_ALL_ADDRESSES.get(listen.host, listen.host)
    return f"http://{Address(host, listen.port)}"


def _checked(url: str) -> str:
    """Return an address that can be asked; what has no scheme is taken for http."""
    whole = (url if "://" in url else f"http://{url}").rstrip("/")
    if not _is_address(whole):
        # It is not repeated: it may hold a password.
        raise _AddressError(
            "--url must be an address such as http://127.0.0.1:9191, without credentials, ? and #"
        )
    return whole


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    return (
        parts.scheme in {"http", "https"}
        and bool(host)
        and port != 0
        and parts.username is None
        and not (parts.query or parts.fragment)
        and url.isprintable()
        and " " not in url
    )


def _report(document: object, address: str) -> Report:
    try:
        return Report.model_validate(document)
    except ValidationError:
        raise AskError(
            f"what answers at {address} is no autoscaler, or one of a version that this program "
            "does not understand"
        ) from None


def _raw(document: object, report: Report) -> list[object]:
    """Return the chosen targets as the daemon sent them, with fields that are not shown here."""
    chosen = {one.target for one in report.targets}
    targets: list[dict[str, object]] = document["targets"]  # type: ignore[index] # as validated
    return [one for one in targets if one["target"] in chosen]
