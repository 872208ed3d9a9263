"""Links from a table's cell to the episodes it counts: addresses inside the page that set the fork viewer's filters."""

from typing import Any
from urllib.parse import urlencode

VIEWER = "forks"


class Linked(str):
    """A table cell's text with the address of its episodes in the page."""

    __slots__ = ("href",)
    href: str

    def __new__(cls, text: str, href: str) -> "Linked":
        """The text with its address."""
        cell = super().__new__(cls, text)
        cell.href = href
        return cell


def episodes(text: str, **filters: Any) -> str:
    """The cell's text, linked to the episodes that pass these filters of the viewer (viewer.js: FILTERS).

    A count of nothing has nothing to show: it stays text.
    """
    if text == "0" or text.startswith("0/"):
        return text
    return Linked(text, f"#{VIEWER}?{urlencode({name: str(value) for name, value in filters.items()})}")
