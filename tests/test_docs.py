"""Every Python snippet of the README and of the documentation runs; the names in the API reference exist."""

import re
import sys
import types
from pathlib import Path

import pytest
from public_names import PATHS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def snippets(page: Path) -> list[tuple[int, str]]:
    """The line at which each ```python block of a page begins, and its text."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, block.start(1)), block.group(1)) for block in FENCE.finditer(text)]


QUICK = ("access.md",)  # touches most of JAX, SciPy and Equinox
DEFAULT = (*QUICK, "README.md", "states.md", "meshes.md")  # the others take long: see CONTRIBUTING.md


def marked(page):
    marks = [pytest.mark.quick] * (page.name in QUICK) + [pytest.mark.slow] * (page.name not in DEFAULT)
    return pytest.param(page, marks=marks)


@pytest.mark.slow_cases("access.md")
@pytest.mark.parametrize("page", [marked(p) for p in PAGES if snippets(p)], ids=lambda p: p.name)
def test_the_snippets_of_a_page_run_in_order(page):
    # A module, so that classes defined in a snippet find the names that their annotations use.
    module = types.ModuleType(f"snippets_of_{page.stem}")
    sys.modules[module.__name__] = module
    try:
        for line, code in snippets(page):
            # Blank lines in front: a traceback then shows the line of the page.
            exec(compile("\n" * line + code, str(page), "exec"), vars(module))
    finally:
        del sys.modules[module.__name__]  # and no other: what was imported meanwhile stays what it is


def test_the_reference_names_every_public_object():
    named = re.findall(r"^::: jaxmech\.([\w.]+)", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(PATHS)


def test_every_page_is_in_the_table_of_contents():
    listed = set(re.findall(r"(\w+\.md)", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert listed == {p.name for p in (ROOT / "docs").glob("*.md")}


def test_the_first_page_leads_to_every_other():
    first = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\((\w+\.md)", first)) == {p.name for p in (ROOT / "docs").glob("*.md")} - {"index.md"}


def test_pictures_are_there_and_small():
    """Every picture that a page shows exists, every PNG is shown, and is of at most 60 kB."""
    shown = set()
    for page in PAGES:
        for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8"), re.DOTALL):
            assert (page.parent / target).is_file(), f"{page.name} shows {target}, which is not there"
            shown.add((page.parent / target).resolve())
    for picture in (ROOT / "docs" / "figures").rglob("*.png"):
        assert picture.stat().st_size <= 60_000, picture
        assert picture.resolve() in shown, f"no page shows {picture.name}"
