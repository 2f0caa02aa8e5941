"""The serving engine: no streamlit, no panels, no app is imported from here."""
