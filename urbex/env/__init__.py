"""The environment: what the agent sees and may do, one episode a query."""
