"""What a peer does about a command: pure. `decide` is the one way in."""
