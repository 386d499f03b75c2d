"""The app in a browser: pure chart builders, widgets, the scenario sidebar, and one file per page."""
