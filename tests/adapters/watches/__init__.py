"""Scales and pods from watches."""
