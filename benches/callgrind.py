"""Count the instructions per operation of a plain program under callgrind.

    python benches/callgrind.py --rounds 100 --operations-per-round 240 PROGRAM [ARGUMENT...]

Counts do not depend on what else the machine does, so a change of one per cent is seen. The program
runs twice, with N and with 2N rounds as its last argument; the difference is what N rounds cost,
without start and end.
"""

import argparse
import re
import shutil
import subprocess
import sys


def instructions(valgrind: str, command: list[str]) -> int:
    """Give how many instructions a program executes.

    Raises: RuntimeError: it could not be counted.
    """
    options = ["--tool=callgrind", "--callgrind-out-file=/dev/null"]
    done = subprocess.run(
        [valgrind, *options, *command], capture_output=True, text=True, check=False
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or found is None:
        raise RuntimeError(done.stderr.strip())
    return int(found[1])


def main() -> int:
    """Print the instructions per operation."""
    parser = argparse.ArgumentParser(description="Count the instructions per operation.")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--operations-per-round", type=int, default=1)
    parser.add_argument("program", nargs=argparse.REMAINDER, help="the program and its arguments")
    arguments = parser.parse_args()
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        print("no valgrind, so nothing is counted (`apt-get install valgrind`)")
        return 0
    once, twice = (
        instructions(valgrind, [*arguments.program, str(arguments.rounds * times)])
        for times in (1, 2)
    )
    each = (twice - once) / (arguments.rounds * arguments.operations_per_round)
    print(f"{' '.join(arguments.program)}: {each:,.1f} instructions per operation")
    return 0


if __name__ == "__main__":
    sys.exit(main())
