"""Tables of safe text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rich.table import Table
from rich.text import Text

from .format import one_line


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[str] = (), flexible: Collection[str] = ()
) -> Table:
    """Return a table of *rows* below *heads*; columns named in *right* are aligned right.

    Only *flexible* columns are shortened if the table is wider than the terminal: the others contain ids and figures.
    """
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in heads:
        justify = "right" if head in right else "left"
        made.add_column(head, justify=justify, no_wrap=head not in flexible)  # type: ignore[arg-type]
    for row in rows:
        made.add_row(*(Text(one_line(cell), no_wrap=True, overflow="ellipsis") for cell in row))
    return made
