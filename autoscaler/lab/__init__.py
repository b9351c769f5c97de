"""Tries out configurations: replay, comparison, tuning and policy tests."""
