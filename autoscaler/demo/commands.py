"""The command of the demonstration."""

import typer

from autoscaler.cli.command import command
from autoscaler.cli.options import refuse
from autoscaler.demo.story import MOST_CLUSTERS, DemoOptions


@command("demo", "demo --context kind-kind")
def demo(options: DemoOptions) -> int:
    """Watch a queue fill and drain, and its workers follow.

    It takes about a minute, and begins with the address of the pages, which show this queue and
    other workloads. Needs Prometheus on the PATH. Ctrl-C leaves nothing behind.
    """
    if options.clusters > MOST_CLUSTERS:
        raise typer.BadParameter(f"the demo has at most {MOST_CLUSTERS}", param_hint="'--clusters'")
    both = options.context is not None and options.clusters > 1
    why = "--clusters makes stand-ins, and --context is a cluster of yours: give only one"
    refuse({why: both})
    from autoscaler.demo.show import perform

    return perform(options)
