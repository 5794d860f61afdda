"""The agents, as peers see them: who is connected, who has which turn, and what each hears of it."""
