"""The report of a race: one HTML page, a Markdown version of it, and pictures.

`summary.py` computes figures from records. `table.py`, `document_tables.py` and `level_tables.py`
make rows of them, and `claims.py` judges what a study's document claims. `charts.py` chooses the
charts, `drawing` draws them as SVG. `page.py`, `markdown.py`, `picture.py` and `csv_export.py`
write files. `compare.py` compares two races. Nothing here measures, and the page sends no request.
"""
