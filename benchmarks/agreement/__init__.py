"""The daemon in shadow beside HPAs of every kind, while their loads change."""
