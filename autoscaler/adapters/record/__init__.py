"""The record in a SQLite file: written on a thread of its own, read by any number of readers."""
