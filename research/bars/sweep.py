"""Bars about sweeps and the speed of the simulator."""
import hashlib, os, random, re, resource, secrets, signal, statistics, subprocess, time
from functools import partial

import bars as lines
from bars import ROOT, call
from package import installed

say = partial(lines.say, width=58)
CASES = 10_000
# A sweep on two workers of an engine; one is killed when a quarter is done. Prints seconds, killed workers and cases run.
CLUSTER = """
import os, signal, sys, time
import seekwise as sw

engine, plan, output = sys.argv[1:]
killed = []

def lose(others):
    # Of Ray's workers the one that works most.
    spent = lambda pid: sum(map(int, open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[11:13]))
    def told(done, total, stage):
        if not killed and done >= total / 4:
            killed.append(max(others, key=spent))
            os.kill(killed[0], signal.SIGKILL)
    return told

def process():
    time.sleep(1)
    return os.getpid()

if __name__ == "__main__":
    if engine == "dask":
        from distributed import Client, LocalCluster
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50)
        executor = Client(cluster)
        workers = list(executor.run(os.getpid).values())
    else:
        import ray as executor
        executor.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=50)
        pool = sw.RayExecutor()
        # Long enough for both workers to be needed.
        workers = {future.result() for future in [pool.submit(process) for _ in range(2)]}
    begun = time.monotonic()
    done = sw.sweep(plan, output, executor=executor, progress=lose(workers))
    print(f"{time.monotonic() - begun:.0f} {len(killed)} {done.run}", flush=True)
    if engine == "dask":
        executor.close()
        cluster.close()
    else:
        executor.shutdown()
"""
PLAN = """
loads = ["trace.csv"]
disks = ["atlas10k"]
schedulers = ["mq-deadline"]
seeds = 20
[tunables.mq-deadline]
fifo_batch = [1, 2, 4, 8, 12, 16, 20, 24, 32, 64]
read_expire = [50, 100, 200, 300, 400, 500, 600, 700, 800, 900]
[host]
nr_requests = [32, 64, 128, 256, 512]
"""


def digest(folder):
    """Digest of every file of a data set, by name."""
    whole = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        whole.update(path.name.encode() + b"\0" + path.read_bytes())
    return whole.hexdigest()


def trace(path, count, per_second, sectors=17_000_000):
    """Writes a trace of random 4 KiB requests, two reads per write."""
    draw, now = random.Random(1), 0
    with open(path, "w") as out:
        out.write("time_us,lba,sectors,op\n")
        for _ in range(count):
            now += draw.randrange(2_000_000 // per_second)
            out.write(f"{now},{draw.randrange(sectors // 8) * 8},8,{'w' if draw.randrange(3) == 0 else 'r'}\n")


def measured(*command):
    """CPU seconds and peak memory in MiB of a command that must succeed."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command}: {said}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def sweep(given, folder):
    program = str(given.programs / "seekwise")
    folder = folder / "sweep"
    folder.mkdir()
    (folder / "plan.toml").write_text(PLAN)
    trace(folder / "trace.csv", 20_000, 100)
    run = [program, "sweep", str(folder / "plan.toml"), "--threads", "2", "--output"]
    begun = time.monotonic()
    done = call(*run, str(folder / "whole"))
    if done.returncode:
        raise SystemExit(done.stderr)
    lasted = time.monotonic() - begun
    share = int(re.search(r"(\d+)% of the cores' time", done.stderr)[1])
    say(f"sweep of {CASES:,} cases on two cores: time in simulations", f"{share}%, in {lasted:.0f} s", "at least 95%", share >= 95)
    # Kill it ten times, spread over the run.
    kills, draw = 0, random.Random(2)
    while kills < 10:
        process = subprocess.Popen([*run, str(folder / "killed")], stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            process.wait(draw.uniform(0.2, lasted / 8))
            break
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
    done = call(*run, str(folder / "killed"))
    same = done.returncode == 0 and digest(folder / "whole") == digest(folder / "killed")
    say(f"the same, killed {kills} times: the data set", "the same" if same else "differs", "the same bytes", same and kills == 10)
    cluster(given, folder)
    speed(given, program, folder)
    advice(program, folder)


def cluster(given, folder):
    """Runs the same cases on Dask and on Ray with two workers, one of which is killed, and the tests of the package on both."""
    interpreter, _ = installed(given, folder, "distributed", "ray", "pytest")
    (folder / "cluster.py").write_text(CLUSTER)
    for engine in ["dask", "ray"]:
        # Without a token, Ray writes one to the home directory.
        surroundings = {**os.environ, "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        done = call(str(interpreter), str(folder / "cluster.py"), engine, str(folder / "plan.toml"), str(folder / engine), env=surroundings)
        said = done.stdout.split()
        # The engine may print more than the script.
        seconds, killed, run = said[-3:] if done.returncode == 0 and len(said) >= 3 else ("-", "0", "0")
        same = killed == "1" and int(run) >= CASES and digest(folder / "whole") == digest(folder / engine)
        if not same:
            print(done.stdout[-1000:] + done.stderr[-2000:])
        say(f"the same on {engine}, one of two workers killed", f"{'the same' if same else 'differs'}, in {seconds} s", "the same bytes", same)
    # Only the files with such tests: others would count as skipped where a package that they need is missing.
    files = [str(ROOT / "python/tests" / name) for name in ("test_sweep.py", "test_documentation.py")]
    test = [str(interpreter), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "ray or dask or on_a_cluster"]
    done = call(*test, *files, cwd=folder, env={**os.environ, "SEEKWISE_RAY": "1", "PYTHONDONTWRITEBYTECODE": "1"})
    last = (done.stdout.strip().splitlines() or [done.stderr])[-1].strip("= ")
    say("the package's tests on Dask and Ray", last[:28], "all pass", done.returncode == 0 and "skipped" not in last)


def speed(given, program, folder):
    """Bars about requests per second of CPU time, compared with DiskSim if available."""
    trace(folder / "million.csv", 1_000_000, 60)
    call(program, "trace", "convert", str(folder / "million.csv"), str(folder / "million.parquet"))
    for scheduler, wanted in [("clook", 4.0), ("mq-deadline", 2.0)]:
        run = [program, "simulate", str(folder / "million.parquet"), "--disk", "atlas10k", "--scheduler", scheduler]
        rate = 1 / statistics.median(measured(*run)[0] for _ in range(5))
        say(f"simulate under {scheduler}, million requests/s of one core", f"{rate:.2f}", f"at least {wanted}", rate >= wanted)
    disksim, parameters = os.environ.get("DISKSIM"), os.environ.get("DISKSIM_PARV")
    if not (disksim and parameters):
        return say("processor time of DiskSim / ours", "skipped", "DISKSIM and DISKSIM_PARV name it and its parameters", None)
    # With more of these requests DiskSim fails an assertion.
    trace(folder / "part.csv", 400_000, 60)
    for form in ["parquet", "disksim"]:
        call(program, "trace", "convert", str(folder / "part.csv"), str(folder / f"part.{form}"))
    ours, theirs = [], []
    for _ in range(5):
        ours.append(measured(program, "simulate", str(folder / "part.parquet"), "--disk", "atlas10k", "--scheduler", "clook")[0])
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([disksim, parameters, str(folder / "out"), "ascii", str(folder / "part.disksim"), "0"],
                       cwd=os.path.dirname(os.path.abspath(parameters)), stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        theirs.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    ratio = statistics.median(theirs) / statistics.median(ours)
    say("processor time of DiskSim / ours", f"{ratio:.0f}", "at least 40", ratio >= 40)


def advice(program, folder):
    """Bars about a recommendation from ten million requests."""
    trace(folder / "ten.csv", 10_000_000, 60)
    call(program, "trace", "convert", str(folder / "ten.csv"), str(folder / "ten.parquet"))
    (folder / "ten.csv").unlink()
    seconds, mib = measured(program, "advise", str(folder / "ten.parquet"), "--disk", "atlas10k")
    say("advise on 10 million requests: peak memory", f"{mib:.0f} MiB", "at most 200 MiB", mib <= 200)
    say("advise on 10 million requests: processor time", f"{seconds:.1f} s", "at most 30 s", seconds <= 30)
