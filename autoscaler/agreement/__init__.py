"""Whether the counts of an HPA and of a target in shadow are the same, and where not."""
