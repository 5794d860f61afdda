"""What the log tells, with or without a running gateway: audit, replay, explain."""
