"""What fits: counting tokens without a network, and the view of a conversation that a model is sent."""
