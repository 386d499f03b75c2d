"""A queue of requests served under policies of K."""
