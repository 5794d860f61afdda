"""How verbs reach a gateway, and where `send` gets its turns."""
