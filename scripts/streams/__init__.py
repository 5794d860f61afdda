"""Readers of what agents print when they run without a terminal: turns out of JSON streams."""
