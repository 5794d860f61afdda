"""Everything that decides and acts: bots, peers, channels, listeners."""
