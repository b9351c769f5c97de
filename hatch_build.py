"""Adds the project's addresses to a package that is built in a GitHub workflow."""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class AddressesHook(MetadataHookInterface):
    """Takes the addresses from the repository that builds; elsewhere the package has none."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `project.urls` and `project.readme`; documents are those of the version's tag."""
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        server = os.environ.get("GITHUB_SERVER_URL")
        name = os.environ.get("GITHUB_REPOSITORY")
        if server and name:
            repository = f"{server}/{name}"
            tag = f"v{metadata['version']}"
            documents = f"{repository}/blob/{tag}"
            metadata["urls"] = {
                "Homepage": repository,
                "Documentation": f"{documents}/docs/index.md",
                "Changelog": f"{documents}/CHANGELOG.md",
                "Issues": f"{repository}/issues",
                "Source": repository,
            }
            # The page on PyPI is elsewhere than the files that it links.
            readme = re.sub(r"\]\((?!https?:|#)", f"]({documents}/", readme)
            readme = re.sub(r'(src|srcset)="(?!https?:)', rf'\1="{repository}/raw/{tag}/', readme)
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
