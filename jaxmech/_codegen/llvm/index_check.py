"""The check of all indices of nodes and of rows, once, before the loop of a kernel.

Of many elements, checked eight at a time, in order, they cost a hundredth of the loop; checked where each is used, they
cost a tenth.
"""

from collections.abc import Iterable, Sequence


def declared(integer: str, width: int) -> str:
    """`@all_below.TYPE(array, first, count, bound)`: whether so many numbers of an array, from the first on, are 0 or more
    and below a bound that is less than `2^31`; so many at a time."""
    name = f"all_below.{integer}"
    # No number below 0 is below such a bound, without sign.
    bound = "%bound" if integer == "i64" else "%short"
    bounds, together = _together(integer, bound, width) if width > 1 else ([], [])
    at, seen, before = ("%at", "%any", "%rest") if width > 1 else ("0", "false", "%begin")
    lines = [
        f"define internal i1 @{name}(ptr noalias readonly %array, i64 %first, i64 %count, i64 %bound) noinline {{",
        "begin:",
        *([] if integer == "i64" else [f"  %short = trunc i64 %bound to {integer}"]),
        *bounds,
        f"  %numbers = getelementptr {integer}, ptr %array, i64 %first",
        *together,
        "  br label %last",
        "last:",
        f"  %last.at = phi i64 [ {at}, {before} ], [ %last.next, %single ]",
        f"  %last.seen = phi i1 [ {seen}, {before} ], [ %last.now, %single ]",
        "  %last.more = icmp slt i64 %last.at, %count",
        "  br i1 %last.more, label %single, label %end",
        "single:",
        f"  %last.here = getelementptr {integer}, ptr %numbers, i64 %last.at",
        f"  %last.read = load {integer}, ptr %last.here",
        f"  %last.beyond = icmp uge {integer} %last.read, {bound}",
        "  %last.now = or i1 %last.seen, %last.beyond",
        "  %last.next = add i64 %last.at, 1",
        "  br label %last",
        "end:",
        "  %all = xor i1 %last.seen, true",
        "  ret i1 %all",
        "}",
    ]
    return "\n".join(lines)


def _together(integer: str, bound: str, width: int) -> tuple[list[str], list[str]]:
    """So many at a time, up to `%at`: whether `%any` is beyond. First a vector of the bound."""
    vector = f"<{width} x {integer}>"
    bounds = [
        f"  %one = insertelement {vector} poison, {integer} {bound}, i32 0",
        f"  %bounds = shufflevector {vector} %one, {vector} poison, <{width} x i32> zeroinitializer",
    ]
    return bounds, [
        f"  %whole = sub i64 %count, {width - 1}",
        "  br label %asked",
        "asked:",
        "  %at = phi i64 [ 0, %begin ], [ %next, %eight ]",
        f"  %seen = phi <{width} x i1> [ zeroinitializer, %begin ], [ %now, %eight ]",
        "  %more = icmp slt i64 %at, %whole",
        "  br i1 %more, label %eight, label %rest",
        "eight:",
        f"  %here = getelementptr {integer}, ptr %numbers, i64 %at",
        f"  %read = load {vector}, ptr %here, align {int(integer[1:]) // 8}",
        f"  %beyond = icmp uge {vector} %read, %bounds",
        f"  %now = or <{width} x i1> %seen, %beyond",
        f"  %next = add i64 %at, {width}",
        "  br label %asked",
        "rest:",
        f"  %any = call i1 @llvm.vector.reduce.or.v{width}i1(<{width} x i1> %seen)",
    ]


class IndexCheck:
    """The text of `@each`, which checks all indices and calls `@checked` if they are in range, and of what it needs."""

    def __init__(self, width: int):
        self._width = width
        self.functions: dict[str, None] = {}
        self.lines: list[str] = []
        self._found: list[str] = []

    def of_elements(self, array: str, integer: str, each: int, bounds: Iterable[str]) -> None:
        """Check that the indices of all elements, so many of each, are below all bounds."""
        name = f"%check{len(self._found)}"
        self.lines += [f"  {name}.first = mul i64 %start, {each}", f"  {name}.count = mul i64 %count, {each}"]
        self._asked(name, array, integer, f"{name}.first", f"{name}.count", list(bounds))

    def of_rows(self, array: str, rows: str) -> None:
        """Check that an array of as many indices holds indices of rows."""
        self._asked(f"%check{len(self._found)}", array, "i32", "0", rows, [rows])

    def finished(self, parameters: Sequence[str], poisoned: Sequence[str]) -> list[str]:
        """The functions, of these parameters; `poisoned` is run instead of `@checked`. None where nothing is checked."""
        if not self._found:
            return []
        lines, all_ = list(self.lines), self._found[0]
        for i, name in enumerate(self._found[1:]):
            lines.append(f"  %check.{i} = and i1 {all_}, {name}")
            all_ = f"%check.{i}"
        given = [parameter.replace("noalias ", "").replace("readonly ", "") for parameter in parameters]
        return [
            *self.functions,
            f"define internal void @each({', '.join(parameters)}) {{",
            *lines,
            f"  br i1 {all_}, label %fine, label %poison",
            "poison:",
            *poisoned,
            "  ret void",
            "fine:",
            f"  call void @checked({', '.join(given)})",
            "  ret void",
            "}",
        ]

    def _asked(self, name: str, array: str, integer: str, first: str, count: str, bounds: list[str]) -> None:
        many = [f"declare i1 @llvm.vector.reduce.or.v{self._width}i1(<{self._width} x i1>)"] if self._width > 1 else []
        self.functions |= dict.fromkeys((*many, declared(integer, self._width)))
        least = bounds[0]
        for i, bound in enumerate(bounds[1:]):
            self.lines.append(f"  {name}.least{i} = call i64 @llvm.smin.i64(i64 {least}, i64 {bound})")
            least = f"{name}.least{i}"
        self.lines.append(f"  {name} = call i1 @all_below.{integer}(ptr {array}, i64 {first}, i64 {count}, i64 {least})")
        self._found.append(name)
