"""Trying a configuration out: replay, compare, tune and policy tests."""
