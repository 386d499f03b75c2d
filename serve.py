"""The app as it is served: app.py behind its guards. `streamlit run serve.py`"""

from pathlib import Path

from streamlit import App

from advisor.ui.server import guards, share_freed_memory

share_freed_memory()
app = App(Path(__file__).with_name("app.py"), middleware=guards())
