"""The data of a replay: from the record, from Prometheus and from files."""
