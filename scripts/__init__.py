"""What people run: one module per verb, the composition root, simulators."""
