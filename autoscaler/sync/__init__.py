"""The sync engine: reads, decides, writes and reports many targets in parallel."""
