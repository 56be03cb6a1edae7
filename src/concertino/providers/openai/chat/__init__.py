"""OpenAI's Chat Completions API, and the servers that speak it."""
