"""Actors on one thread: mailboxes, supervision, directory, timers, clock, ids. Imports nothing else of the project."""
