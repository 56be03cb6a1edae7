"""Tool calls: dispatch, approval, context and timeouts."""
