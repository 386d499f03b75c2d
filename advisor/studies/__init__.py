"""What writes docs/ and profiles/calibration. Imports everything; nobody imports it."""
