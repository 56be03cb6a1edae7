"""Models and their providers: the port, and one adapter folder for each vendor."""
