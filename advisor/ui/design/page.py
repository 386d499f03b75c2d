"""Page Design: the model to train instead, at equal quality by every law."""

from __future__ import annotations

from advisor.ui.design.view import view
from advisor.ui.widgets import scenario_or_stop

view(scenario_or_stop())
