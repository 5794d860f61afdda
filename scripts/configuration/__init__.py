"""The configuration: found, read strictly, checked whole; secrets are read only when needed."""
