"""Statistics of a race: plain functions of numbers, without I/O and without a clock.

Medians with bootstrap intervals over rounds (`interval.py`), ratios of rounds that were interleaved
(`ratio.py`), histograms that are merged because percentiles cannot be (`histogram.py`), and marks
for what is noisy (`noise.py`).
"""
