"""What happened: the vocabulary of the log, its states and its arithmetic. Pure."""
