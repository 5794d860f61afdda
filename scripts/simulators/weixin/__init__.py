"""A Weixin (iLink) server for tests and demonstrations."""
