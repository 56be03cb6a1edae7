"""The web server. It needs the extra `server`."""
