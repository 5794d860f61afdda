"""The demo: a scripted day, played by real processes over HTTP on loopback, and a verdict that compares phone and ledger."""
