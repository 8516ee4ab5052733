"""What a race says: one HTML page, the same as Markdown, and pictures.

`summary.py` makes figures of records, `table.py` and `shape.py` rows of figures; `bars.py`,
`spans.py` and `lines.py` draw SVG; `page.py`, `markdown.py` and `picture.py` write. Nothing here
measures, and no request leaves the page.
"""
