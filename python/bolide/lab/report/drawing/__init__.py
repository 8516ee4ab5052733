"""Charts as SVG: `bars.py` and `lines.py` draw on an `axis.py` with the elements of `svg.py`."""
