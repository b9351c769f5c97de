"""The command of the demonstration."""

import typer

from autoscaler.cli.command import command
from autoscaler.cli.options import refuse
from autoscaler.demo.story import MOST_CLUSTERS, DemoOptions


@command("demo", "demo --context kind-kind")
def demo(options: DemoOptions) -> int:
    """Show a queue that fills and drains, and its workers.

    Takes about a minute. Prints the URL of the pages first. Needs Prometheus on the PATH. Ctrl-C
    stops and removes everything.
    """
    if options.clusters > MOST_CLUSTERS:
        raise typer.BadParameter(f"the demo has at most {MOST_CLUSTERS}", param_hint="'--clusters'")
    both = options.context is not None and options.clusters > 1
    why = "set only one of --clusters (simulated clusters) and --context (your cluster)"
    refuse({why: both})
    from autoscaler.demo.show import perform

    return perform(options)
