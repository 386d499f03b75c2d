"""What writes docs/ and profiles/calibration; imported by nobody."""
