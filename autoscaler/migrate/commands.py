"""The commands that migrate workloads from other autoscalers, and back."""

from pathlib import Path
from typing import Annotated

import typer

from autoscaler.cli.command import command
from autoscaler.cli.options import Workloads, refuse
from autoscaler.migrate.options import AdoptionSource, AdoptOptions, ImportOptions


@command(
    "import hpa.yaml keda/ -o autoscaler.yaml",
    "import --from-cluster -A -o autoscaler.yaml",
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
    *,
    options: ImportOptions,
) -> int:
    """Convert HPAs, ScaledObjects and adapter rules to a configuration.

    Reads HorizontalPodAutoscalers of every version, ScaledObjects of KEDA and the rules of
    prometheus-adapter. Keys that cannot be converted are listed as `undecided` in the
    configuration, which is invalid until you decide and remove them. With --as objects it writes
    PromqlAutoscalers, where these keys are comments.

    Exit codes: 0 everything was imported and the configuration is valid, 1 a source could not be
    read or a file not written, 2 bad arguments, 3 nothing was found, some sources were refused or
    are undecided, or the report lists secret files that you must mount.
    """
    from autoscaler.migrate.importing import import_autoscalers

    output, is_of_cluster = options.output, options.from_cluster
    is_there = output is not None and output.is_file()
    refuse(
        {
            "name a file, a folder, - or --from-cluster": not files and not is_of_cluster,
            "set only one of --namespace and --all-namespaces": options.all_namespaces
            and options.namespace,
            "--all-namespaces needs --from-cluster": (options.all_namespaces and not is_of_cluster),
            "--context needs --from-cluster": options.context and not is_of_cluster,
            f"{output} exists: name another file, or overwrite it with --force": (
                is_there and not options.force
            ),
        }
    )
    return import_autoscalers(files or [], options)


@command(
    "adopt shop/order-worker",
    "adopt shop/order-worker --execute",
    "adopt shop/order-worker --back --execute",
)
def adopt(
    targets: Workloads,
    *,
    wishes: AdoptOptions,
    place: AdoptionSource,
) -> int:
    """Take over targets from an HPA or KEDA, or return them.

    Saves and deletes the HPA, or pauses the ScaledObject; then the daemon writes the
    replicas, which do not change meanwhile. Without --execute the steps are printed as commands.
    An interrupted run can be repeated.

    Finds the daemon as `status` does, and the cluster with your kubeconfig.

    Exit codes: 0 done or printed, 1 not possible or not finished, 2 bad arguments or configuration.
    """
    from autoscaler.migrate.adopting import adopt as adopt_all

    refuse({"set --config FILE, the configuration of the targets": place.config is None})
    return adopt_all(targets, place, wishes)
