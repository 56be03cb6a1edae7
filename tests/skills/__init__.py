"""Agent Skills: loading, files and scripts."""
