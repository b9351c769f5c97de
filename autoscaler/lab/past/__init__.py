"""The data of a replay: of the record, of Prometheus and of files."""
