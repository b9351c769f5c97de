"""Whether the counts of an HPA and of a target in shadow are equal, and where they differ."""
