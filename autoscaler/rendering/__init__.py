"""Renderings of a decision: its state, a sentence, an explanation, and JSON."""
