"""Unit tests of scaling policies: a file of them, how one runs, and what it is checked for."""
