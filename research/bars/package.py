"""Bars about the Python package: the wheel, its import time, simulation of a dataframe compared with the program on Parquet, a scheduler in Python."""
import os, statistics, sys
from functools import partial

import bars as lines
from bars import ROOT, call

say = partial(lines.say, width=70)


def checked(*command, **more):
    done = call(*[str(part) for part in command], **more)
    if done.returncode:
        sys.exit(f"{' '.join(str(part) for part in command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


# Prints CPU seconds of the process and its threads for the code that follows.
CLOCK = "import time, resource, sys\ndef spent():\n    of = resource.getrusage(resource.RUSAGE_SELF)\n    return of.ru_utime + of.ru_stime\n"

MAKE = """
import sys, numpy, pyarrow, seekwise as sw
count, path = int(sys.argv[1]), sys.argv[2]
draw = numpy.random.default_rng(1)
frame = pyarrow.table({"ts": numpy.arange(count) * 16_600, "off": draw.integers(0, 1 << 21, count) * 4096,
                       "len": numpy.full(count, 4096), "rw": numpy.where(draw.random(count) < 0.7, "R", "W")})
import pyarrow.parquet
pyarrow.parquet.write_table(frame, path + ".frame")
sw.Trace.from_arrow(frame, time="ts", unit="us", offset="off", size="len", op="rw").write(path)
"""

FRAME = CLOCK + """
import polars, seekwise as sw
frame = polars.read_parquet(sys.argv[1])
begin = spent()
trace = sw.Trace.from_arrow(frame, time="ts", unit="us", offset="off", size="len", op="rw")
loaded = spent()
result = sw.simulate(trace, disk="atlas10k", scheduler="clook", threads=1)
print(spent() - begin, loaded - begin, result.figures.response.mean_ms)
"""

OWN = CLOCK + """
import collections, numpy, pyarrow, seekwise as sw
class Fcfs(sw.Scheduler):
    def __init__(self):
        self.queue = collections.deque()
    def insert(self, now, request):
        self.queue.append(request)
    def pick(self, now):
        return self.queue.popleft() if self.queue else None
count = 300_000
draw = numpy.random.default_rng(1)
frame = pyarrow.table({"ts": numpy.arange(count) * 16_600, "off": draw.integers(0, 1 << 21, count) * 4096, "len": numpy.full(count, 4096), "rw": ["R"] * count})
trace = sw.Trace.from_arrow(frame, time="ts", unit="us", offset="off", size="len", op="rw")
begin = spent()
sw.simulate(trace, disk="atlas10k", scheduler=Fcfs)
print(count / (spent() - begin))
"""

IMPORT = "import time; begin = time.process_time(); import seekwise; print((time.process_time() - begin) * 1e3)"


def installed(given, folder, *packages):
    """Returns a Python interpreter with the package built by pip from the checkout and further packages, and the name of the wheel."""
    environment = given.environment or folder / "environment"
    interpreter = environment / "bin/python"
    if not interpreter.exists():
        checked("python3", "-m", "venv", environment)
    wanted = ["maturin", "pyarrow", *packages]
    here = checked(interpreter, "-c", "import importlib.util as find, sys; print(all(map(find.find_spec, sys.argv[1:])))", *wanted)
    if here.strip() != "True":
        checked(interpreter, "-m", "pip", "install", "--quiet", *wanted)
    wheels = folder / "wheels"
    wheel = next(wheels.glob("seekwise-*.whl"), None)
    if wheel is None:
        build = {**os.environ, "MATURIN_PEP517_ARGS": f"--profile {given.profile}"}
        path = f"{environment / 'bin'}:{os.environ['PATH']}"
        checked(interpreter, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, ROOT / "python", env={**build, "PATH": path})
        wheel = next(wheels.glob("seekwise-*.whl"))
        checked(interpreter, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", wheel)
    return interpreter, wheel.name


def python(given, folder):
    """Bars about the package built by pip from the checkout, compared with the program of the same profile."""
    interpreter, wheel = installed(given, folder, "polars", "numpy")
    say("pip wheel from a checkout", wheel, "a wheel for Python 3.9 and newer", "abi3" in wheel)

    def run(code, *arguments):
        return [float(value) for value in checked(interpreter, "-c", code, *arguments).split()]
    took = statistics.median(run(IMPORT)[0] for _ in range(5))
    say("import seekwise", f"{took:.0f} ms", "below 100 ms", took < 100)

    trace = folder / "trace.parquet"
    checked(interpreter, "-c", MAKE, given.requests, trace)
    program = given.programs / "seekwise"
    clock = CLOCK + "import subprocess\nsubprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\nof = resource.getrusage(resource.RUSAGE_CHILDREN)\nprint(of.ru_utime + of.ru_stime)\n"
    ratios, last = [], None
    for _ in range(given.rounds):
        theirs = run(clock, program, "simulate", trace, "--disk", "atlas10k", "--scheduler", "clook", "--threads", "1")[0]
        ours = run(FRAME, f"{trace}.frame")
        ratios.append(ours[0] / theirs)
        last = (ours, theirs)
    ratio, (ours, theirs) = statistics.median(ratios), last
    say(f"{given.requests:,} requests: a polars frame by the program on Parquet", f"{ratio:.2f} times", "at most 1.1 times", ratio <= 1.1)
    say("  of it the last round", f"{ours[0]:.1f} s (frame {ours[1]:.1f}), {theirs:.1f} s", "", None)
    rate = statistics.median(run(OWN)[0] for _ in range(given.rounds))
    say("first come, first served in Python", f"{rate:,.0f} requests/s", "at least 100,000 requests/s", rate >= 100_000)
