"""Tools: what a model may call, how a Python function becomes one, and the registry that holds them."""
