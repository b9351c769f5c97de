"""The options of the demo."""

from dataclasses import dataclass

from autoscaler.demo.story import STORY, Story


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """``context`` is one of the user's kubeconfig; None means the embedded stand-in.

    ``namespace`` is created for the demo and removed at its end.
    ``keep`` is whether the demo goes on after its story until it is interrupted; None means that
    it does on a terminal.
    """

    context: str | None = None
    namespace: str = "autoscaler-demo"
    story: Story = STORY
    keep: bool | None = None
