"""Logins of users to MCP servers by OAuth 2.1."""
