"""`autoscaler import`: converts other autoscalers to a configuration, with a report."""

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from threading import Event

from pydantic import ValidationError

from autoscaler import clock
from autoscaler.cli.output import CommandError
from autoscaler.config import ConfigError, Problem, load
from autoscaler.config.documents import Location, as_flow, as_yaml, child, path_of
from autoscaler.config.loading import namespace_or_anywhere
from autoscaler.config.objects import outsized
from autoscaler.config.prometheus_connection import PrometheusSettings
from autoscaler.config.sources import unusable_files
from autoscaler.config.spec_model import HorizontalPodAutoscalerBehavior
from autoscaler.core.series import QueryFailure
from autoscaler.file_contents import write_output
from autoscaler.kubernetes import ConnectError, find_api_server
from autoscaler.migrate.adapter_queries import FindSeries
from autoscaler.migrate.configuration import configuration_of, objects_of, spec_of
from autoscaler.migrate.conversion import (
    Conversion,
    ImportedManifest,
    ImportState,
    SeriesError,
    convert,
)
from autoscaler.migrate.fields import Fields
from autoscaler.migrate.import_report import ImportReport
from autoscaler.migrate.manifests import ClusterManifests, ImportSources, Manifest
from autoscaler.migrate.options import ImportOptions
from autoscaler.prometheus import PrometheusReader
from autoscaler.transport.retries import FOR_A_COMMAND

_CLUSTER = "cluster"
"""The name of the cluster as a source, in messages."""
_LOST = 3
"""The exit code if a source was refused or is undecided."""
_MOST_ROUNDS = 100
_NAME_OF_NONE = "import.yaml"
_NUMBERED = re.compile(r"\btargets\[([0-9]+)\]")
_STEP = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|\[([0-9]+)\]|([^.\[\]]+)')


def import_autoscalers(names: Sequence[Path], options: ImportOptions) -> int:
    """Convert the named sources, write configuration and report, and return the exit code."""
    return _Import(options).run(names)


class _Import:
    def __init__(self, options: ImportOptions) -> None:
        self._options = options
        self._cluster: ClusterManifests | None = None
        self._failures: list[str] = []

    def run(self, names: Sequence[Path]) -> int:
        sources, rules = ImportSources(), ImportSources()
        sources.add(names)
        rules.add(self._options.adapter_rules)
        with ExitStack() as stack:
            if self._options.from_cluster:
                self._read_cluster(sources, rules, stack)
            conversion = convert(
                [*rules.manifests, *sources.manifests],
                self._options,
                find_series=self._finder(stack),
            )
            _leave_out_defaults(conversion)
            output = self._options.output
            _refuse_what_is_not_valid(conversion, Path() if output is None else output.parent)
            if self._options.as_ == "objects":
                _fit_into_objects(conversion)
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
            verbose=self._options.verbose,
        )
        self._tell(report, written)
        if self._failures or any(unread.document is None for unread in report.unread):
            return 1
        return 0 if written and report.is_whole else _LOST

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
                Manifest(Fields(fields), _CLUSTER, number)
                for number, fields in enumerate(listed, 1)
            ]

    def _finder(self, stack: ExitStack) -> FindSeries | None:
        """Return a function that asks Prometheus for series; None without a Prometheus."""
        url = self._options.prometheus
        if url is None:
            return None
        settings, stop = PrometheusSettings(url=url), Event()
        reader = PrometheusReader(settings, stop, absent_seconds=FOR_A_COMMAND)
        stack.callback(reader.close)
        known: dict[str, list[Mapping[str, str]]] = {}

        def find(selector: str) -> list[Mapping[str, str]]:
            if selector not in known:
                query = f"count by (__name__) ({selector})"  # One result for each name.
                answer = reader.query(query, None, clock.monotonic() + settings.timeout)
                if isinstance(answer, QueryFailure):
                    raise SeriesError(f"Prometheus was not asked for series: {answer.message}")
                known[selector] = [series.labels for series in answer.series]
            return known[selector]

        return find

    # -- output ------------------------------------------------------------------------------------

    def _write(self, conversion: Conversion, written: Sequence[ImportedManifest]) -> None:
        output, text = self._options.output, configuration_of(conversion, written).text
        if self._options.as_ == "objects":
            text = "---\n".join(objects_of(conversion, written))
        if output is None:
            print(text, end="", flush=True)
            return
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
            write_output(output, text.encode())
        except OSError as error:
            raise CommandError(f"{output} cannot be written: {error.strerror}") from None

    def _scope(self) -> str:
        """Return a line that names the namespace that was read; empty if all were."""
        options = self._options
        if not options.from_cluster or options.all_namespaces:
            return ""
        namespace = options.namespace or "default"
        return f"\nonly the namespace {namespace} was read; -A reads all namespaces"

    def _tell(self, report: ImportReport, written: Sequence[ImportedManifest]) -> None:
        as_json = self._options.report == "json"
        text = report.json() if as_json else report.text() + ("" if written else self._scope())
        # Two texts on one stream could not be separated.
        print(text, file=sys.stderr if self._options.output is None else sys.stdout, flush=True)


def _leave_out_defaults(conversion: Conversion) -> None:
    """Omit the API server's defaults, which a person would not write."""
    for manifest in conversion.written:
        target = manifest.target
        if target.get("minReplicas") == 1:
            del target["minReplicas"]
        if "behavior" in target:
            with suppress(ValidationError):  # An invalid value is refused later, as it is written.
                behavior = HorizontalPodAutoscalerBehavior.model_validate(target["behavior"])
                dumped = behavior.model_dump(mode="json", by_alias=True, exclude_defaults=True)
                target["behavior"] = dumped


def _fit_into_objects(conversion: Conversion) -> None:
    """Refuse what is too large for an object, and note what only the configuration can have."""
    for manifest in conversion.written:
        for fault in islice(outsized(spec_of(conversion, manifest)), 1):
            manifest.refuse(f"{path_of(fault.location)}: {fault.message}")
    document = configuration_of(conversion, conversion.written).document
    needed = {key: document[key] for key in document if key not in {"queries", "targets"}}
    sentence = f"the objects need this in the configuration: {as_flow(needed)}"
    conversion.notes.append(f"{sentence}; permit its servers in `objects.servers`")


# -- what a configuration refuses ------------------------------------------------------------------


def _refuse_what_is_not_valid(conversion: Conversion, folder: Path) -> None:
    """Refuse what every configuration, and the API server, refuses, with the same sentence."""
    for manifest in conversion.written:
        for problem in _problems(conversion, [manifest], folder):
            _take(manifest, problem)
    # Conflicts between several targets, such as two of one workload.
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


def _take(manifest: ImportedManifest, problem: Problem) -> None:
    location = _location(problem.path)
    if location[:1] != ("targets",):
        manifest.refuse(f"{problem.path}: {_sentence(problem)}")
        return
    above = "metadata" if location[2:] == ("namespace",) else "spec"
    place: Location = (above, *location[2:])
    while place and child(manifest.manifest.fields.value, *place) is None:
        place = place[:-1]
    if manifest.state is ImportState.IMPORTED:
        key = path_of(location[2:])
        manifest.refuse(f"{key}: {_sentence(problem)}" if key else _sentence(problem))
    elif manifest.state is ImportState.IN_PART and not _is_undecided(manifest, place):
        manifest.leave(place, _sentence(problem))


def _is_undecided(manifest: ImportedManifest, place: Location) -> bool:
    """Return whether a key, or one within it or around it, is undecided anyway."""
    left = [entry.location for entry in manifest.entries if entry.outcome.value == "refused"]
    return any(at[: len(place)] == place or place[: len(at)] == at for at in left)


def _sentence(problem: Problem) -> str:
    return problem.message + (f" (got {problem.value})" if problem.value is not None else "")


def _with_sources(sentence: str, written: Sequence[ImportedManifest]) -> str:
    """Replace the numbers of targets in a sentence by the names of their sources."""
    return _NUMBERED.sub(lambda found: _source_of(int(found[1]), written), sentence)


def _source_of(index: int, written: Sequence[ImportedManifest]) -> str:
    if index >= len(written):
        return f"targets[{index}]"
    manifest = written[index].manifest
    return f"{manifest.kind} {manifest.name} of {manifest.file}"


def _problems(
    conversion: Conversion, written: Sequence[ImportedManifest], folder: Path
) -> list[Problem]:
    """Check targets as the daemon would, except undecided keys and files of secrets."""
    document = configuration_of(conversion, written).document
    without = [
        {key: value for key, value in manifest.target.items() if key != "undecided"}
        for manifest in written
    ]
    content = as_yaml({**document, "targets": without}).encode()
    path = folder / _NAME_OF_NONE
    missing = {path_of(file.location) for file in unusable_files(document, folder.absolute())}
    try:
        load(path, namespace_or_anywhere, content)
    except ConfigError as error:
        return [problem for problem in error.problems if problem.path not in missing]
    return []


def _location(path: str) -> Location:
    return tuple(
        int(number) if number else quoted or plain for quoted, number, plain in _STEP.findall(path)
    )
