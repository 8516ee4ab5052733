"""Load from several machines: `bolide load --fleet` and `bolide agent`.

The coordinator (`engine.py`) sends plans to agents (`agent.py`). Each runs the generator in a
process of its own (`generator.py`), within the limits that it was started with (`limits.py`). Dask
only carries the messages (`wire.py`). docs/fleet.md is for users.
"""
