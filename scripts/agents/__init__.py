"""Agents for the demo and for tests. They know the gateway by its protocol alone and import nothing of it."""
