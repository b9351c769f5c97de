"""The use case: one sync of many targets, from reads through decisions to writes and reports."""
