"""`autoscaler import`: the autoscalers of others become a configuration, and a report says how."""

import base64
import binascii
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event

from pydantic import ValidationError

from autoscaler import clock
from autoscaler.cli.output import CommandError, exit_code
from autoscaler.config import ConfigError, Problem, load
from autoscaler.config.documents import Location, as_yaml, child, path_of
from autoscaler.config.loading import namespace_or_anywhere
from autoscaler.config.prometheus_connection import PrometheusSettings
from autoscaler.config.sources import unusable_files
from autoscaler.config.spec_model import HorizontalPodAutoscalerBehavior
from autoscaler.core.series import QueryFailure
from autoscaler.core.text import printable
from autoscaler.file_contents import read_bytes, write_below, write_output
from autoscaler.kubernetes import ConnectError, find_api_server
from autoscaler.migrate.adapter_queries import FindSeries
from autoscaler.migrate.configuration import ConfigurationFile, configuration_of, split
from autoscaler.migrate.conversion import (
    Conversion,
    Imported,
    ImportState,
    SeriesError,
    convert,
)
from autoscaler.migrate.drafts import SecretValue
from autoscaler.migrate.fields import Fields
from autoscaler.migrate.import_report import ImportReport
from autoscaler.migrate.import_sources import ImportSources
from autoscaler.migrate.manifests import Manifest, ManifestRole
from autoscaler.migrate.manifests_of_cluster import ClusterManifests
from autoscaler.migrate.options import ImportOptions
from autoscaler.prometheus import PrometheusReader
from autoscaler.transport.retries import FOR_A_COMMAND

_CLUSTER = "cluster"
"""What messages call what was read there."""
_LOST = 3
"""The exit code where something was refused or is undecided."""
_MOST_ROUNDS = 100
_MOST_NAMED = 5
_NAME_OF_NONE = "import.yaml"
_NUMBERED = re.compile(r"\btargets\[([0-9]+)\]")
_STEP = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|\[([0-9]+)\]|([^.\[\]]+)')


@exit_code
def import_autoscalers(names: Sequence[Path], options: ImportOptions) -> int:
    """Convert what is named, write the configuration and the report, and return the exit code."""
    return _Import(options).run(names)


class _Import:
    def __init__(self, options: ImportOptions) -> None:
        self._options = options
        self._secrets: dict[tuple[str, str, str], Mapping[str, bytes]] = {}
        self._cluster: ClusterManifests | None = None
        self._failures: list[str] = []

    def run(self, names: Sequence[Path]) -> int:
        sources, rules = ImportSources(), ImportSources()
        sources.add(names)
        rules.add(self._options.adapter_rules)
        with ExitStack() as stack:
            if self._options.from_cluster:
                self._read_cluster(sources, rules, stack)
            self._keep_secrets(sources.manifests)
            conversion = convert(
                [*rules.manifests, *sources.manifests],
                self._options,
                find_series=self._finder(stack),
                read_secret=self._text_of,
            )
            _leave_out_defaults(conversion)
            _refuse_what_is_not_valid(conversion, self._folder)
            secrets = list(self._files_of_secrets(conversion))
        if self._cluster is not None:
            self._failures += dict.fromkeys(self._cluster.failures)
            conversion.notes += [self._cluster.searched] if conversion.lacks_rules else []
        written = conversion.written
        if written:
            self._write(conversion, written)
        report = ImportReport(
            conversion.imported,
            [*rules.unread, *sources.unread],
            conversion.notes if written else (),
            self._failures,
            secrets,
            verbose=self._options.verbose,
        )
        self._tell(report, written)
        if self._failures or any(one.document is None for one in report.unread):
            return 1
        return 0 if written and report.is_whole else _LOST

    @property
    def _folder(self) -> Path:
        return Path() if self._options.output is None else self._options.output.parent

    # -- sources -----------------------------------------------------------------------------------

    def _read_cluster(self, sources: ImportSources, rules: ImportSources, stack: ExitStack) -> None:
        try:
            server = find_api_server(None, self._options.context)
            api = stack.enter_context(server.connect(absent_seconds=FOR_A_COMMAND))
        except ConnectError as error:
            raise CommandError(f"autoscaler cannot import from the cluster: {error}") from None
        namespace = "" if self._options.all_namespaces else self._options.namespace or "default"
        self._cluster = ClusterManifests(api, namespace)
        for listed, into in (
            (self._cluster.autoscalers(), sources.manifests),
            (self._cluster.adapter_rules() if not rules.manifests else (), rules.manifests),
        ):
            into += [
                Manifest(Fields(one), _CLUSTER, number) for number, one in enumerate(listed, 1)
            ]

    def _finder(self, stack: ExitStack) -> FindSeries | None:
        """Return what asks Prometheus for series; None where none can be asked."""
        url = self._options.prometheus
        if url is None:
            return None
        settings, stop = PrometheusSettings(url=url), Event()
        reader = PrometheusReader(settings, stop, absent_seconds=FOR_A_COMMAND)
        stack.callback(reader.close)
        known: dict[str, list[Mapping[str, str]]] = {}

        def find(selector: str) -> list[Mapping[str, str]]:
            if selector not in known:
                query = f"count by (__name__) ({selector})"  # of each name one answer
                answer = reader.query(query, None, clock.monotonic() + settings.timeout)
                if isinstance(answer, QueryFailure):
                    raise SeriesError(f"Prometheus was not asked for series: {answer.message}")
                known[selector] = [series.labels for series in answer.series]
            return known[selector]

        return find

    # -- secrets -----------------------------------------------------------------------------------

    def _keep_secrets(self, manifests: Sequence[Manifest]) -> None:
        if self._options.write_secrets is None:
            return
        for one in manifests:
            if one.role is ManifestRole.VALUES:
                key = ("Secret", one.namespace or self._options.namespace or "default", one.name)
                self._secrets[key] = dict(_values(one.fields))

    def _value_of(self, secret: SecretValue) -> bytes | None:
        """Return a value; None unless it was asked for, and is there."""
        if self._options.write_secrets is None:
            return None
        held = self._secrets.get((secret.kind, secret.namespace, secret.name))
        if held is not None:
            return held.get(secret.key)
        if self._cluster is None:
            return None
        return self._cluster.value(secret.kind, secret.namespace, secret.name, secret.key)

    def _text_of(self, secret: SecretValue) -> str | None:
        value = self._value_of(secret)
        return None if value is None else value.decode(errors="replace")

    def _files_of_secrets(self, conversion: Conversion) -> Iterator[tuple[SecretValue, bool]]:
        """Write the files of secrets that were asked for; yield each, and whether it is there."""
        found = [secret for one in conversion.written for secret in one.draft.secrets]
        values = {secret: self._value_of(secret) for secret in dict.fromkeys(found)}
        folder, renamed = self._options.write_secrets, dict[str, str]()
        files = {_names_of(secret): value for secret, value in values.items() if value is not None}
        if folder is not None:
            self._refuse_to_overwrite(folder, files)
        for secret, value in values.items():
            if value is None or folder is None:
                yield secret, False
                continue
            path = _written_below(folder, _names_of(secret), value, force=self._options.force)
            name = os.path.relpath(path, self._folder)
            renamed[secret.file] = str(path.absolute()) if name.startswith("..") else name
            yield secret._replace(file=renamed[secret.file]), True
        for settings in conversion.shared.servers.values():
            settings.update({key: _renamed(value, renamed) for key, value in settings.items()})

    # -- output ------------------------------------------------------------------------------------

    def _write(self, conversion: Conversion, written: Sequence[Imported]) -> None:
        output = self._options.output
        if output is None:
            print(configuration_of(conversion, written).text, end="", flush=True)
            return
        main, parts = configuration_of(conversion, written), dict[str, ConfigurationFile]()
        if self._options.split:
            main, parts = split(conversion, written, f"{output.stem}.d")
        files = {tuple(name.split("/")): file.text.encode() for name, file in parts.items()}
        self._refuse_to_overwrite(output.parent, files)
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
            for names, content in files.items():
                _written_below(
                    output.parent, names, content, force=self._options.force, private=False
                )
            write_output(output, main.text.encode())
        except OSError as error:
            raise CommandError(f"{output} cannot be written: {error.strerror}") from None

    def _refuse_to_overwrite(self, folder: Path, files: Mapping[tuple[str, ...], bytes]) -> None:
        """Refuse files that are there with another content, before anything is written."""
        there = [
            str(path)
            for names, content in files.items()
            if (path := folder.joinpath(*names)).is_file() and not _is_same(path, content)
        ]
        if there and not self._options.force:
            listed = ", ".join(map(printable, there[:_MOST_NAMED]))
            more = f" and {len(there) - _MOST_NAMED} more" if len(there) > _MOST_NAMED else ""
            raise CommandError(
                f"these files are there already: {listed}{more}; --force replaces them"
            )

    def _where(self) -> str:
        """Say which namespaces of a cluster were read, where nothing was found."""
        options = self._options
        if not options.from_cluster or options.all_namespaces:
            return ""
        namespace = options.namespace or "default"
        return f": of the cluster only the namespace {namespace} was read; -A reads all of them"

    def _tell(self, report: ImportReport, written: Sequence[Imported]) -> None:
        match self._options.report:
            case "json":
                text = report.json()
            case "markdown":
                text = report.markdown()
            case _:
                text = report.text()
                if not written:
                    text += f"\nnothing was imported{self._where()}"
        # Of two texts on one stream neither could be used.
        print(text, file=sys.stderr if self._options.output is None else sys.stdout, flush=True)


def _values(secret: Fields) -> Iterator[tuple[str, bytes]]:
    """Yield the values of a Secret as it stands in a file."""
    data, plain = secret.peek("data"), secret.peek("stringData")
    for key, value in data.items() if isinstance(data, dict) else ():
        try:
            yield key, base64.b64decode(str(value), validate=False)
        except (binascii.Error, ValueError):
            continue
    for key, value in plain.items() if isinstance(plain, dict) else ():
        yield key, str(value).encode()


def _renamed(value: object, names: Mapping[str, str]) -> object:
    if isinstance(value, dict):
        return {key: _renamed(one, names) for key, one in value.items()}
    return names.get(value, value) if isinstance(value, str) else value


def _names_of(secret: SecretValue) -> tuple[str, ...]:
    return secret.namespace, secret.name, secret.key


def _is_same(path: Path, content: bytes) -> bool:
    try:
        return read_bytes(path, len(content)) == content
    except OSError:
        return False


def _written_below(
    folder: Path, names: Sequence[str], content: bytes, *, force: bool, private: bool = True
) -> Path:
    try:
        return write_below(folder, names, content, force=force, private=private)
    except OSError as error:
        path = printable(str(folder.joinpath(*names)))
        raise CommandError(f"{path} cannot be written: {error.strerror}") from None


def _leave_out_defaults(conversion: Conversion) -> None:
    """Leave out what a person would not write, as an API server fills it in."""
    for one in conversion.written:
        target = one.target
        if target.get("minReplicas") == 1:
            del target["minReplicas"]
        if "behavior" in target:
            with suppress(ValidationError):  # what is not valid is refused later, as it is written
                behavior = HorizontalPodAutoscalerBehavior.model_validate(target["behavior"])
                dumped = behavior.model_dump(mode="json", by_alias=True, exclude_defaults=True)
                target["behavior"] = dumped


# -- what a configuration refuses ------------------------------------------------------------------


def _refuse_what_is_not_valid(conversion: Conversion, folder: Path) -> None:
    """Refuse what no configuration accepts, and the API server neither, with its sentence."""
    for one in conversion.written:
        for problem in _problems(conversion, [one], folder):
            _take(one, problem)
    # What several targets together break, such as two of one workload.
    for _ in range(_MOST_ROUNDS):
        written, refused = conversion.written, False
        for problem in _problems(conversion, written, folder) if written else ():
            match _location(problem.path):
                case ("targets", int() as index, *_) if index < len(written):
                    if written[index].state is ImportState.IMPORTED:
                        written[index].refuse(_with_sources(_sentence(problem), written))
                        refused = True
                case _:
                    conversion.notes.append(f"{problem.path}: {_sentence(problem)}")
        if not refused:
            return


def _take(one: Imported, problem: Problem) -> None:
    location = _location(problem.path)
    if location[:1] != ("targets",):
        one.refuse(f"{problem.path}: {_sentence(problem)}")
        return
    above = "metadata" if location[2:] == ("namespace",) else "spec"
    place: Location = (above, *location[2:])
    while place and child(one.manifest.fields.value, *place) is None:
        place = place[:-1]
    if one.state is ImportState.IMPORTED:
        key = path_of(location[2:])
        one.refuse(f"{key}: {_sentence(problem)}" if key else _sentence(problem))
    elif one.state is ImportState.IN_PART and not _is_undecided(one, place):
        one.leave(place, _sentence(problem))


def _is_undecided(one: Imported, place: Location) -> bool:
    """Return whether a key, or one within it or around it, is undecided anyway."""
    left = [entry.location for entry in one.entries if entry.outcome.value == "refused"]
    return any(at[: len(place)] == place or place[: len(at)] == at for at in left)


def _sentence(problem: Problem) -> str:
    return problem.message + (f" (got {problem.value})" if problem.value is not None else "")


def _with_sources(sentence: str, written: Sequence[Imported]) -> str:
    """Name the sources of targets that a sentence names by their numbers."""
    return _NUMBERED.sub(lambda found: _source_of(int(found[1]), written), sentence)


def _source_of(index: int, written: Sequence[Imported]) -> str:
    if index >= len(written):
        return f"targets[{index}]"
    manifest = written[index].manifest
    return f"{manifest.kind} {manifest.name} of {manifest.file}"


def _problems(conversion: Conversion, written: Sequence[Imported], folder: Path) -> list[Problem]:
    """Check targets as the daemon would, but for what is undecided and for files of secrets."""
    document = configuration_of(conversion, written).document
    targets = document["targets"]
    without = [
        {key: value for key, value in target.items() if key != "undecided"}
        for target in (targets if isinstance(targets, list) else [])
    ]
    content = as_yaml({**document, "targets": without}).encode()
    path = folder / _NAME_OF_NONE
    missing = {path_of(file.location) for file in unusable_files(document, folder.absolute())}
    try:
        load(path, namespace_or_anywhere, content)
    except ConfigError as error:
        return [one for one in error.problems if one.path not in missing]
    return []


def _location(path: str) -> Location:
    return tuple(
        int(number) if number else quoted or plain for quoted, number, plain in _STEP.findall(path)
    )
