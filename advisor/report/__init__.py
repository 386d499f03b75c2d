"""What leaves the advisor: reports and engine configuration."""
