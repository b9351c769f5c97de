"""Unit tests of scaling policies: their files, how a test runs, and its expectations."""
