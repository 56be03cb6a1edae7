"""Model calls: one attempt, retries, budgets and summaries."""
