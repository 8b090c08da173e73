"""Attributes replaced in the bytes of an XML file, all else as it was."""

import re
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

_TAG = re.compile(rb"<[^\s/>]+")
_ATTRIBUTE = re.compile(rb"""\s+([^\s=/>]+)\s*=\s*("[^"]*"|'[^']*')""")


def with_attributes(content: bytes, edits: dict[int, dict[str, str]]) -> bytes:
    """`content`, whose element number `n` (in the order of the file) has the attributes `edits[n]`."""
    starts: list[int] = []
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda *_: starts.append(parser.CurrentByteIndex)
    parser.Parse(content, True)
    for number in sorted(edits, reverse=True):
        content = _edited(content, starts[number], edits[number])
    return content


def _edited(content: bytes, start: int, attributes: dict[str, str]) -> bytes:
    tag = _TAG.match(content, start)
    assert tag is not None
    at, places = tag.end(), {}
    while found := _ATTRIBUTE.match(content, at):
        places[found[1].decode()] = found.span(2)
        at = found.end()
    added = "".join(f" {name}={quoteattr(text)}" for name, text in attributes.items() if name not in places)
    content = content[:at] + added.encode() + content[at:]
    for name, (begin, end) in sorted(places.items(), key=lambda item: -item[1][0]):
        if name in attributes:
            content = content[:begin] + quoteattr(attributes[name]).encode() + content[end:]
    return content
