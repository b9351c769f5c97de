"""The commands that try a configuration out, and the schemas of all files."""

from pathlib import Path
from typing import Annotated

import typer

from autoscaler.cli.command import command
from autoscaler.cli.options import ONE_TARGET, ConfigFile, Output, flag, refuse, target_argument
from autoscaler.lab.options import PolicyTestOptions, ReplayOptions, ReportOptions, SearchOptions


@command(
    "replay -c autoscaler.yaml --from '7d ago'",
    "replay -c autoscaler.yaml --csv load.csv",
    "replay -c now.yaml -c new.yaml --from '7d ago'",
)
def replay(
    configs: Annotated[
        list[Path],
        typer.Option(
            *("--config", "-c"),
            metavar="FILE",
            help="The configuration; of several the others are compared with the first.",
        ),
    ],
    output: Output = "text",
    *,
    options: ReplayOptions,
    report: ReportOptions,
) -> int:
    """Replay a time that has passed as configurations would have gone through it.

    The data are what its Prometheus servers have, what a daemon has recorded, or files. Pods that
    are created become ready later, readings follow the count, and every decision is that of a
    daemon. How the load of each metric follows the count is told: as recorded, shared by the pods
    that are ready, or a queue; --assume states it.

    With several -c they stand side by side: each measure of each target is told with which is
    better, and on how many of the days. The demand is counted in pods of the first one.

    Ctrl-C leaves what is done of one configuration.

    Exit codes: 0 replayed, 1 some targets could not be, or it was interrupted, 2 bad
    configuration or arguments.
    """
    from autoscaler.lab.replaying import replay as run

    return run(configs, options, report, as_json=output == "json")


@command(
    "tune shop/web -c autoscaler.yaml --from '14d ago' --shortage-cost 10 --replica-hour-cost 1",
    "tune shop/web -c autoscaler.yaml --from '14d ago' --most-shortage 0.1%",
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
    """Search for better settings of one target, on its history.

    It tells which candidates none is better than in shortage, replica-hours and changes together,
    and which one of them is preferred by the costs. They are chosen by the first half of the days
    and judged on the others, and the configuration as it is stands beside them. It needs optuna,
    which requirements-tune.lock has.

    Ctrl-C leaves the best so far.

    Exit codes: 0 searched, 1 the target could not be replayed, or it was interrupted, 2 bad
    configuration or arguments.
    """
    from autoscaler.lab.tuning import tune as run

    return run(target, config, options, search, report, as_json=output == "json")


@command("test policy-tests/*.yaml", "test --junit report.xml policy-tests/queue.yaml")
def test(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="YAML files of tests.")],
    options: PolicyTestOptions,
) -> int:
    """Run unit tests of scaling policies, as `promtool test rules` runs those of alerts.

    A file names a configuration, what its queries return, and which counts are expected when. The
    decisions are those of the daemon, in a simulated world; nothing is asked and nothing written.

    Exit codes: 0 all hold, 1 some do not, 2 a file is not valid.
    """
    from autoscaler.lab.testing import run_test_files

    return run_test_files(files, options)


@command("schema > autoscaler.schema.json")
def schema(
    included: Annotated[
        bool, flag("included", "The schema of a file that `include` names.")
    ] = False,
    tests: Annotated[bool, flag("tests", "The schema of a file of `autoscaler test`.")] = False,
    replay: Annotated[
        bool, flag("replay", "The schema of what `autoscaler replay -o json` prints.")
    ] = False,
) -> int:
    """Print the JSON Schema of the configuration file, for editors.

    Those of --included and --tests refer to autoscaler.schema.json, the one of the configuration
    file, in the same folder.
    """
    import json

    from autoscaler.cli.json_schemas import CONFIGURATION, INCLUDED, json_schema
    from autoscaler.lab.policy_tests.settings import TESTS
    from autoscaler.lab.rendering import ReplayAnswer

    refuse({"give one of --included, --tests and --replay": included + tests + replay > 1})
    of = INCLUDED if included else TESTS if tests else CONFIGURATION
    found = ReplayAnswer.model_json_schema() if replay else json_schema(of)
    typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    return 0
