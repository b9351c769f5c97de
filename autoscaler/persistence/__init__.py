"""Storage in SQLite: the state of targets, and the record of decisions."""
