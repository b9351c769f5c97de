"""The commands that move workloads from other autoscalers, and back."""

from pathlib import Path
from typing import Annotated

import typer

from autoscaler.cli.command import command
from autoscaler.cli.options import Workloads, refuse
from autoscaler.migrate.options import AdoptionSource, AdoptOptions, ImportOptions


@command(
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
    *,
    options: ImportOptions,
) -> int:
    """Convert autoscalers of others to a configuration, and report what differs.

    It reads HorizontalPodAutoscalers of every version, ScaledObjects of KEDA and the rules of
    prometheus-adapter. What cannot be carried over stands in the configuration as `undecided`, and
    keeps it from being valid until somebody has decided; the rest is imported.

    Exit codes: 0 all was imported and the configuration is valid, 1 something could not be read,
    asked or written, 2 bad arguments, 3 something was refused or is undecided, or files of
    secrets have to be mounted.
    """
    from autoscaler.migrate.importing import import_autoscalers

    output, is_of_cluster = options.output, options.from_cluster
    is_there = output is not None and output.is_file()
    refuse(
        {
            "name a file, a folder, - or --from-cluster": not files and not is_of_cluster,
            "give --namespace or --all-namespaces": options.all_namespaces and options.namespace,
            "--all-namespaces goes with --from-cluster": (
                options.all_namespaces and not is_of_cluster
            ),
            "--context goes with --from-cluster": options.context and not is_of_cluster,
            f"{output} is there already: name another file, or write over it with --force": (
                is_there and not options.force
            ),
        }
    )
    return import_autoscalers(files or [], options)


@command(
    "adopt shop/order-worker -c autoscaler.yaml",
    "adopt shop/order-worker -c autoscaler.yaml --execute",
    "adopt shop/order-worker -c autoscaler.yaml --back --execute",
)
def adopt(
    targets: Workloads,
    *,
    wishes: AdoptOptions,
    place: AdoptionSource,
) -> int:
    """Go over from a HorizontalPodAutoscaler or KEDA, or back.

    The other autoscaler is saved and deleted, or its ScaledObject paused; the target is live then.
    Nothing moves in between. Without --execute the steps are printed, as commands. With
    it each is done when the one before holds; what was interrupted goes on where it ended.

    It asks the daemon as `status` does, and the cluster with your kubeconfig and your rights.

    Exit codes: 0 done, or printed, 1 it could not be done, or not to the end, 2 bad arguments or
    configuration.
    """
    from autoscaler.migrate.adopting import adopt as adopt_all

    refuse({"give the configuration of the targets with --config FILE": place.config is None})
    return adopt_all(targets, place, wishes)
