"""Benchmarks: ratios beside anchors that are measured in the same run. `replyledger bench` runs them."""
