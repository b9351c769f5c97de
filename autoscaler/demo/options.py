"""The options of the demo."""

from dataclasses import dataclass

from autoscaler.demo.story import STORY, Story


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """``context`` is one of the user's kubeconfig; None means the embedded stand-in.

    ``namespace`` is created for the demo and removed at its end.
    """

    context: str | None = None
    namespace: str = "autoscaler-demo"
    story: Story = STORY
