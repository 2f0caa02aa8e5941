"""Text from outside on a page: names, paths and sentences that must stay what they are."""


def plain(text: str) -> str:
    """Text that Markdown leaves as it is, on one line."""
    return "".join("\\" + c if c in "\\`*_{}[]<>()#+-.!|$~:" else c for c in " ".join(text.split()))
