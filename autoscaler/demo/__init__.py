"""`autoscaler demo`: the daemon scales the workers of a queue, in about a minute."""

from autoscaler.demo.story import DemoOptions

__all__ = ["DemoOptions", "run"]


def run(options: DemoOptions) -> int:
    """Run the demo and return its exit code; see `autoscaler.demo.show.perform`."""
    from autoscaler.demo.show import perform  # noqa: PLC0415 - so that importing costs nothing

    return perform(options)
