"""Servers that stand in for the real channels: pure models with thin HTTP shells."""
