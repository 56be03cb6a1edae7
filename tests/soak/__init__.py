"""A soak of a fleet: published tasks as conversations, while workers are killed and servers restart."""
