"""One folder a chat platform."""
