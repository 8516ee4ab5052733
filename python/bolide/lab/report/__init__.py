"""What a race says: one HTML page, the same as Markdown, and pictures.

`summary.py` makes figures of records, `table.py` and `shape.py` rows of figures; `bars.py` and
`lines.py` draw SVG on an `axis.py`; `page.py`, `markdown.py`, `picture.py` and `sheet.py` write.
`compare.py` sets two races side by side. Nothing here measures, and no request leaves the page.
"""
