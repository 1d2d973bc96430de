"""General checks: verifiers that need no domain, and metrics."""
