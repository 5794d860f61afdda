"""The durable log: append, read, follow, claim."""
