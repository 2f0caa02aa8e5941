"""The pages over the scripted engine: an ASGI app for pictures. State and moment come from the environment."""

import os

from app.pages import site
from app.shelf import shelf
from tests.browser.scenes import SCENES

site.run(shelf("scene", lambda: SCENES[os.environ["PARKDECK_SCENE"]]()))
