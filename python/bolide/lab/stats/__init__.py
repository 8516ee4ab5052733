"""Statistics of a race: plain functions of numbers, without I/O and without a clock.

Medians with exact intervals over rounds (`interval.py`), ratios of interleaved rounds (`ratio.py`),
an exact test of two races (`paired_test.py`), when rounds are enough (`stopping.py`), Little's law
(`littles_law.py`), merged histograms, because percentiles cannot be merged (`histogram.py`), and
marks for noisy figures (`noise.py`).
"""
