"""The listeners: agents (WebSocket) and HTTP."""
