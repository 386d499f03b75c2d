"""The scenario's bar."""
