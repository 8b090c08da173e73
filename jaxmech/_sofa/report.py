"""What became of a scene, component by component."""

from typing import NamedTuple

FATES = ("equal", "equivalent", "read", "ignored", "created", "refused")


class Row(NamedTuple):
    """One component: where it stands, what became of it (one of `FATES`), and what there is to say of it."""

    component: str
    file: str
    line: int
    fate: str
    remark: str


class Report:
    """The rows of a scene, in the order in which they were met; printed as a table."""

    def __init__(self):
        self.rows: list[Row] = []

    def add(self, object, fate: str, remark: str = "") -> None:
        """A row on an object or a node."""
        assert fate in FATES
        name = object.path + (f" ({object.kind})" if hasattr(object, "kind") else "")
        self.rows.append(Row(name, object.file, object.line, fate, remark))

    def of(self, fate: str) -> list[Row]:
        """The rows of one fate."""
        return [row for row in self.rows if row.fate == fate]

    def __str__(self) -> str:
        lines = []
        for row in self.rows:
            place = f"{row.file.rsplit('/', 1)[-1]}:{row.line}"
            lines.append(f"{row.fate:<10} {row.component}  [{place}]" + (f"  {row.remark}" if row.remark else ""))
        counts = ", ".join(f"{len(self.of(fate))} {fate}" for fate in FATES if self.of(fate))
        return "\n".join([*lines, counts or "nothing"])
