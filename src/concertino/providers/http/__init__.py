"""HTTP transport shared by the adapters: streams, bodies, timeouts and encodings."""
