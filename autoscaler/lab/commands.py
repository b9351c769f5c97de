"""The commands that try out a configuration, and the schemas of files."""

from pathlib import Path
from typing import Annotated

import typer

from autoscaler.cli.command import command
from autoscaler.cli.options import (
    ONE_TARGET,
    ConfigFile,
    Output,
    TargetNames,
    flag,
    refuse,
    target_argument,
)
from autoscaler.lab.options import PolicyTestOptions, ReplayOptions, ReportOptions, SearchOptions


@command(
    "replay --since 7d",
    "replay --csv load.csv",
    "replay -c now.yaml -c new.yaml --since 7d shop/web",
)
def replay(
    configs: Annotated[
        list[Path],
        typer.Option(
            *("--config", "-c"),
            metavar="FILE",
            help="The configuration; repeat to compare others with the first.",
        ),
    ],
    targets: TargetNames = None,
    output: Output = "text",
    *,
    options: ReplayOptions,
    report: ReportOptions,
) -> int:
    """Simulate what a configuration would have done in a past period.

    The data come from Prometheus, from the record of a daemon or from files. Decisions are those
    of the daemon; pods, their start and their load are simulated. Every assumption is printed, and
    --assume replaces them.

    With several -c each target has the measures of all configurations side by side. The demand is
    counted in pods of the first one.

    Ctrl-C prints the results so far of one configuration.

    Exit codes: 0 done, 1 some targets could not be replayed or interrupted, 2 invalid
    configuration or arguments.
    """
    from autoscaler.lab.replaying import replay as run

    return run(configs, targets or [], options, report, as_json=output == "json")


@command(
    "tune shop/web --since 14d --shortage-cost 20",
    "tune shop/web --since 14d --most-shortage 0.1%",
)
def tune(
    target: Annotated[str, target_argument(f"{ONE_TARGET}.")],
    config: ConfigFile,
    search: SearchOptions,
    output: Output = "text",
    *,
    options: ReplayOptions,
    report: ReportOptions,
) -> int:
    """Search for better settings of one target by replay.

    Prints the candidates that no other beats in all of shortage, replica-hours and changes, and
    the one with the lowest cost. Candidates are chosen on the first half of the days and evaluated
    on the second half, next to the current configuration. Needs the extra `tune`.

    Ctrl-C prints the best candidates so far.

    Exit codes: 0 done, 1 the target could not be replayed or interrupted, 2 invalid configuration
    or arguments.
    """
    from autoscaler.lab.tuning import tune as run

    return run(target, config, options, search, report, as_json=output == "json")


@command("test policy-tests/*.yaml", "test --junit report.xml policy-tests/queue.yaml")
def test(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Files of policy tests (YAML).")
    ],
    options: PolicyTestOptions,
) -> int:
    """Run unit tests of scaling policies, like `promtool test rules`.

    A file names a configuration, the results of its queries over time and the expected replicas.
    Decisions are the daemon's. Needs no cluster and no Prometheus.

    Exit codes: 0 all tests pass, 1 some fail, 2 invalid file.
    """
    from autoscaler.lab.testing import run_test_files

    return run_test_files(files, options)


@command("schema > autoscaler.schema.json")
def schema(
    included: Annotated[bool, flag("included", "Print the schema of included files.")] = False,
    tests: Annotated[bool, flag("tests", "Print the schema of policy tests.")] = False,
    replay: Annotated[
        bool, flag("replay", "Print the schema of `autoscaler replay -o json`.")
    ] = False,
) -> int:
    """Print the JSON Schema of the configuration, for editors.

    The schemas of --included and --tests refer to autoscaler.schema.json in the same folder.
    """
    import json

    from autoscaler.cli.json_schemas import CONFIGURATION, INCLUDED, json_schema
    from autoscaler.lab.policy_tests.settings import TESTS
    from autoscaler.lab.rendering import ReplayAnswer

    refuse({"set only one of --included, --tests and --replay": included + tests + replay > 1})
    of = INCLUDED if included else TESTS if tests else CONFIGURATION
    found = ReplayAnswer.model_json_schema() if replay else json_schema(of)
    typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    return 0
