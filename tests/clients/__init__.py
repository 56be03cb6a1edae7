"""The protocols of the server, read by the clients that products use."""
