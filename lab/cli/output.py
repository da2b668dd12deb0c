"""Print for people so that what they copy stays whole."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text


def line(console: Console, text: str, style: str = "") -> None:
    """One paragraph, as it is: no line breaks are put into commands and paths, and [brackets] are no markup."""
    console.print(Text(text, style), soft_wrap=True)


def columns(console: Console, rows: list[tuple[str, ...]]) -> None:
    """Rows of a table without a frame; every cell is printed in full, however narrow the terminal is."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        line(console, "  ".join(cells).rstrip())
