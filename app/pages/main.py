"""What Streamlit runs for each tab."""

from app.pages import site
from app.shelf import DECK, taken

site.run(taken(DECK))  # type: ignore[arg-type]
