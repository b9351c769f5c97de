"""Adds the project's addresses to the metadata of a package that is built in a GitHub workflow."""

import os
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class AddressesHook(MetadataHookInterface):
    """Takes the addresses from the repository that builds; elsewhere the package has none."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `project.urls`; documents are those of the version's tag."""
        server = os.environ.get("GITHUB_SERVER_URL")
        name = os.environ.get("GITHUB_REPOSITORY")
        if not server or not name:
            return
        repository = f"{server}/{name}"
        documents = f"{repository}/blob/v{metadata['version']}"
        metadata["urls"] = {
            "Homepage": repository,
            "Documentation": f"{documents}/docs/index.md",
            "Changelog": f"{documents}/CHANGELOG.md",
            "Issues": f"{repository}/issues",
            "Source": repository,
        }
