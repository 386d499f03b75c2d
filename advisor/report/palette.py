"""Colours of the charts in reports: Okabe and Ito's colour-blind safe series, as on screen."""

BLUE, VERMILLION, ORANGE, NEUTRAL = "#0072B2", "#D55E00", "#E69F00", "#6B6B6B"
"""Line and band; slowdown; plain step; reference lines. NEUTRAL is darker than on screen: paper is white."""
