#!/bin/bash
# Of four converters from HTML to Markdown none keeps a table whose cell has `a||b`, and all move values to other columns at a `rowspan`.
#
# Seen with markdownify 1.2.3, html2text 2025.4.15, turndown 7.2.5 with @joplin/turndown-plugin-gfm 1.0.68 and node-html-markdown 2.0.0,
# read again with markdown-it-py 4.3.0. On the left the cells of a table's body, then those of the Markdown, `/` between rows, `-` if empty:
#   a|b, or: markdownify a, b; html2text a, b; turndown a|b, or; node-html-markdown a|b, or
#   a||b, or: markdownify a, -; html2text a, -; turndown a|b, or; node-html-markdown a|, b
#   C:\, disk: markdownify C:\, disk; html2text C:| disk, -; turndown C:\, disk; node-html-markdown C:\, disk
#   a (two rows), b / c: markdownify a, b / c, -; html2text a, b / c, -; turndown a, b / c, -; node-html-markdown a, b / c, -
# A bar ends the cell, the next cell takes the place of a value, and what does not fit is dropped by the reader; nothing looks broken. One
# library makes one bar of two, another escapes the first one only. In the last table c belongs to the second column.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund turndown@7.2.5 @joplin/turndown-plugin-gfm@1.0.68 node-html-markdown@2.0.0 > /dev/null
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --disable-pip-version-check markdownify==1.2.3 html2text==2025.4.15 markdown-it-py==4.3.0
cat > convert.mjs <<'JS'
import { readFileSync } from "node:fs";
import { gfm } from "@joplin/turndown-plugin-gfm";
import { NodeHtmlMarkdown } from "node-html-markdown";
import TurndownService from "turndown";

const turndown = new TurndownService().use(gfm);
const html = readFileSync(0, "utf8");
console.log(JSON.stringify({ turndown: turndown.turndown(html), "node-html-markdown": NodeHtmlMarkdown.translate(html) }));
JS
cat > compare.py <<'PY'
import json
import subprocess
from bs4 import BeautifulSoup
from html2text import html2text
from markdown_it import MarkdownIt
from markdownify import markdownify

reader = MarkdownIt("commonmark").enable("table")


def cells(html):
    _, *rows = BeautifulSoup(html, "html.parser").find_all("tr")
    return " / ".join(", ".join(cell.get_text() or "-" for cell in row.find_all("td")) for row in rows)


for name, body in {
    "a|b, or": "<td>a|b</td><td>or</td>",
    "a||b, or": "<td>a||b</td><td>or</td>",
    "C:\\, disk": "<td>C:\\</td><td>disk</td>",
    "a (two rows), b / c": '<td rowspan="2">a</td><td>b</td></tr><tr><td>c</td>',
}.items():
    html = f"<table><tr><th>first</th><th>second</th></tr><tr>{body}</tr></table>"
    texts = {"markdownify": markdownify(html), "html2text": html2text(html)}
    texts |= json.loads(subprocess.run(["node", "convert.mjs"], input=html, text=True, capture_output=True, check=True).stdout)
    print(f"{name}: {'; '.join(f'{library} {cells(reader.render(text))}' for library, text in texts.items())}")
PY
seen=$(venv/bin/python compare.py)
echo "$seen"
expected='a|b, or: markdownify a, b; html2text a, b; turndown a|b, or; node-html-markdown a|b, or
a||b, or: markdownify a, -; html2text a, -; turndown a|b, or; node-html-markdown a|, b
C:\, disk: markdownify C:\, disk; html2text C:| disk, -; turndown C:\, disk; node-html-markdown C:\, disk
a (two rows), b / c: markdownify a, b / c, -; html2text a, b / c, -; turndown a, b / c, -; node-html-markdown a, b / c, -'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
