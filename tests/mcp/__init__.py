"""Tools of MCP servers: real servers over stdio and HTTP."""
