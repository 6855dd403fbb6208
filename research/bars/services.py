#!/usr/bin/env python3
"""PostgreSQL under pgbench beside each of its neighbours on an emulated disk, with and without protection: a table.

    research/bars/services.py [--disk NAME]... [--neighbour NAME]... [--method NAME]... [--seconds N] [--rate N] [--programs DIR] [--image FILE] [--top]

Disks are profiles of `seekwise disk list`. The data directory is on ext4, larger than shared_buffers, and the page cache is dropped before each run, so that it
reads. pgbench has 8 clients, which do as many transactions as they can or, with --rate, that many per second. The database and each neighbour are in cgroups of
their own; pgbench itself is in none, as it uses no disk. "kernel MB/s" is what threads of the kernel transfer for all: write-back, the journal.

backup   tar of a tree of files into a pipe         scan    dd of a file through the page cache
load     COPY into a second server, which reads      build   tar x, cc and sync
         its rows from memory                        writer  dd into a file through the page cache
all      all of them at the same time

alone    no neighbour                               iocost   io.cost with its own model of the device; io.weight 1000 against 10
nothing  mq-deadline, no limits                     protect  seekwise-agent protect; p99 of reads and of fsync at most --times those alone
bfq      io.bfq.weight 1000 against 10              oracle   the highest static io.max of all neighbours, of steps by a factor of two, with which
                                                             the p99 of transactions is at most 1.3 times that alone; else the one with the lowest

Needs root, the controller io in the unified hierarchy, PostgreSQL, fuse, 4 GB in /dev/shm. What it makes goes at its end, also after Ctrl-C, but for --image, which
is used again.
"""
import argparse, contextlib, json, os, re, shutil, signal, subprocess, sys, tempfile, time
from pathlib import Path

sys.dont_write_bytecode = True
from bars import ROOT, call, end, say

NEIGHBOURS = ["backup", "load", "scan", "build", "writer"]
METHODS = ["alone", "nothing", "bfq", "iocost", "protect", "oracle"]
DISKS = ["sata7200", "sd-card", "cloud-volume"]
# Target for the p99 relative to that alone, and the values of io.max that the oracle tries, in MB/s.
BAR, WANTED, STEPS = 1.3, "at most 1.3 times that alone", [64, 32, 16, 8, 4, 2, 1]
SIZE, SCALE = "6G", 40
# Limit of dirty pages: 20% of the memory of a machine with 1 GB.
DIRTY_BYTES = 200 << 20
# Drops the cached pages of the given trees only, so that each pass reads from the disk.
EVICT = """python3 -c 'import os, sys
for folder, _, files in (step for root in sys.argv[1:] for step in os.walk(root)):
    for name in files:
        fd = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)' """


class Failed(Exception):
    """A fatal error with its reason."""


def run(*command, **more):
    done = call(*map(str, command), **more)
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def bin_of_postgres():
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pgbench"), key=lambda path: int(path.parts[4]))
    if not found:
        raise Failed("needs PostgreSQL: no /usr/lib/postgresql/*/bin/pgbench")
    return found[-1].parent


def mount_of_cgroups():
    mounts = [line.split(" ") for line in Path("/proc/self/mounts").read_text().splitlines()]
    place = next((Path(words[1]) for words in mounts if words[2] == "cgroup2"), None)
    if place is None or "io" not in (place / "cgroup.controllers").read_text().split():
        raise Failed(f"needs the controller io in the unified hierarchy of cgroups ({place})")
    return place


def until(what, holds, seconds=60):
    ends = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > ends:
            raise Failed(f"waited {seconds} s in vain: {what}")
        time.sleep(0.05)


class Group:
    """A cgroup; its processes are killed with it."""

    def __init__(self, stack, parent, name):
        self.folder = parent / name
        self.folder.mkdir()
        stack.callback(self.end)

    def end(self):
        if self.folder.exists():
            (self.folder / "cgroup.kill").write_text("1")
            until(f"{self.folder} is empty", lambda: "populated 0" in (self.folder / "cgroup.events").read_text())
            self.folder.rmdir()

    def path(self, hierarchy):
        return f"/{self.folder.relative_to(hierarchy)}"

    def start(self, line, user=None, cwd="/"):
        prefix = ["runuser", "-u", user, "--"] if user else []
        script = f'echo $$ >"{self.folder}/cgroup.procs" && cd "$1" && shift && exec "$@"'
        return subprocess.Popen(
            ["sh", "-c", script, "sh", cwd, *prefix, "sh", "-c", line],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )

    def bytes(self, number):
        found = re.search(rf"^{number} rbytes=(\d+) wbytes=(\d+)", (self.folder / "io.stat").read_text(), re.M)
        return int(found[1]) + int(found[2]) if found else 0


class Server:
    """A PostgreSQL server in a cgroup."""

    def __init__(self, stack, group, folder, port):
        self.group, self.folder, self.port, self.bin = group, folder, port, bin_of_postgres()
        (folder / "postmaster.pid").unlink(missing_ok=True)
        self.process = group.start(f"exec {self.bin}/postgres -D {folder} -k {folder} -c listen_addresses= -p {port}", user="postgres")
        stack.callback(self.end)
        until(f"{folder} answers", lambda: call(str(self.bin / "pg_isready"), "-h", str(folder), "-p", str(port)).returncode == 0)

    def arguments(self):
        return ["-h", str(self.folder), "-p", str(self.port), "-U", "postgres"]

    def ask(self, sql, database="postgres"):
        return run("runuser", "-u", "postgres", "--", self.bin / "psql", *self.arguments(), "-qAtc", sql, database)

    def end(self):
        # Immediate, but not by a signal: a killed server leaves shared memory behind.
        if self.process.poll() is None:
            call("runuser", "-u", "postgres", "--", str(self.bin / "pg_ctl"), "-D", str(self.folder), "-s", "-m", "immediate", "stop")
            self.process.wait()


def made_image(stack, hierarchy, image):
    """Creates an ext4 image with all data. Contents that are only read are zeros, which take no memory."""
    with contextlib.ExitStack() as own:
        image.touch()
        os.truncate(image, 6 << 30)
        run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
        place = Path(own.enter_context(tempfile.TemporaryDirectory()))
        run("mount", "-o", "loop", image, place)
        own.callback(lambda: run("umount", place))
        tree = place / "tree"
        for number in range(2_000):
            folder = tree / f"{number // 100:02}"
            folder.mkdir(parents=True, exist_ok=True)
            # From 16 KiB to 2 MiB: 900 MB.
            (folder / f"{number}").write_bytes(bytes(16_384 << number * 7919 % 8))
        with (place / "big").open("wb") as big, (place / "writer").open("wb") as writer:
            for _ in range(1_000):
                big.write(bytes(1 << 20))
            for _ in range(500):
                writer.write(bytes(1 << 20))
        (place / "build").mkdir()
        group = Group(own, hierarchy, f"seekwise-image-{os.getpid()}")
        for name in ["database", "load"]:
            (place / name).mkdir()
            shutil.chown(place / name, "postgres", "postgres")
            run("runuser", "-u", "postgres", "--", bin_of_postgres() / "initdb", "-N", "-D", place / name, "-A", "trust")
            with (place / name / "postgresql.conf").open("a") as conf:
                conf.write("shared_buffers = 32MB\nmax_wal_size = 2GB\nlog_destination = stderr\nlogging_collector = off\n")
        with contextlib.ExitStack() as servers:
            server = Server(servers, group, place / "database", 5433)
            server.ask("alter system set fsync = off")
            server.ask("select pg_reload_conf()")
            server.ask("create database bench")
            run("runuser", "-u", "postgres", "--", server.bin / "pgbench", *server.arguments(), "-q", "-i", "-s", SCALE, "bench", cwd="/")
            server.ask("alter system reset fsync")
            server.ask("vacuum analyze", "bench")
            server.ask("checkpoint")
            other = Server(servers, group, place / "load", 5434)
            other.ask("create table rows (id bigint, name text, amount numeric)")
            other.ask("checkpoint")
        group.end()
        run("sync", "-f", place)
    run("fallocate", "--dig-holes", image)


def sources(folder):
    """Creates an archive of C files, and rows for COPY, in a folder in memory."""
    tree = folder / "src"
    tree.mkdir()
    for number in range(200):
        body = "".join(f"int f{number}_{at}(int x) {{ return x * {at} + {number}; }}\n" for at in range(40))
        (tree / f"{number}.c").write_text("#include <stdio.h>\n" + body)
    run("tar", "-cf", folder / "src.tar", "-C", folder, "src")
    with (folder / "rows").open("w") as rows:
        for number in range(200_000):
            rows.write(f"{number}\tthe name of row {number} {'x' * (number % 60)}\t{number * 37 % 100_000}.{number % 100:02}\n")
    folder.chmod(0o755)


class Disk:
    """An emulated disk with a copy of the image, mounted."""

    def __init__(self, stack, programs, name, image, folder):
        backing, fuse = folder / "backing", folder / "fuse"
        fuse.mkdir()
        stack.callback(fuse.rmdir)
        run("cp", "--sparse=always", image, backing)
        stack.callback(lambda: backing.unlink(missing_ok=True))
        self.process = subprocess.Popen(
            [programs / "seekwise", "emulate", "--attach", "--disk", name, "--size", SIZE, "--backing", backing, fuse],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        )
        stack.callback(self.end)
        self.device = self.process.stdout.readline().strip()
        if not self.device.startswith("/dev/"):
            raise Failed(f"{name} cannot be emulated: {self.device}")
        self.name = self.device.removeprefix("/dev/")
        self.number = Path(f"/sys/block/{self.name}/dev").read_text().strip()
        # max_bytes cannot be restored, as its default exceeds what may be written to it: max_ratio is the same limit as a share of memory.
        bdi = Path("/sys/block") / self.name / "bdi"
        for key in "max_ratio", "strict_limit":
            stack.callback((bdi / key).write_text, (bdi / key).read_text())
        (bdi / "max_bytes").write_text(str(DIRTY_BYTES))
        (bdi / "strict_limit").write_text("1")
        self.place = folder / "mounted"
        self.place.mkdir()
        stack.callback(self.place.rmdir)
        run("mount", self.device, self.place)
        stack.callback(self.unmount)

    def unmount(self):
        until("it is not in use", lambda: call("umount", str(self.place)).returncode == 0)

    def end(self):
        self.process.terminate()
        self.process.wait()

    def schedule(self, name):
        (Path("/sys/block") / self.name / "queue/scheduler").write_text(name)

    def bytes(self):
        words = (Path("/sys/block") / self.name / "stat").read_text().split()
        return 512 * (int(words[2]) + int(words[6]))


def commands(neighbour, disk, memory, server):
    """Shell commands of the neighbours, which run until killed."""
    at = disk.place
    return {
        "backup": f"while :; do tar -cf - tree | cat >/dev/null; {EVICT} tree; done",
        "scan": "while :; do dd if=big of=/dev/null bs=1M status=none; dd if=big iflag=nocache count=0 status=none; done",
        "load": f"while :; do {server and server.bin}/psql -U postgres -h {at}/load -p 5434 -qc 'truncate rows; copy rows from stdin' postgres <{memory}/rows; done",
        "build": f"while :; do rm -rf build/src; tar -xf {memory}/src.tar -C build; for f in build/src/1?.c; do cc -c -o $f.o $f; done; sync -f build; done",
        "writer": "while :; do dd if=/dev/zero of=writer bs=1M count=500 conv=notrunc status=none; done",
    }[neighbour]


class Bench:
    """The runs on one disk."""

    def __init__(self, options, hierarchy, base, memory, disk):
        self.options, self.hierarchy, self.base, self.memory, self.disk = options, hierarchy, base, memory, disk
        self.promise = None

    def run(self, method, neighbours, limit_mb_s=None):
        """Runs one combination; returns its figures."""
        options, disk = self.options, self.disk
        with contextlib.ExitStack() as stack:
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=self.memory)))
            disk.schedule("bfq" if method == "bfq" else "mq-deadline")
            stack.callback(lambda: disk.schedule("mq-deadline"))
            database = Group(stack, self.base, "database")
            groups = [Group(stack, self.base, name) for name in neighbours]
            server = Server(stack, database, disk.place / "database", 5433)
            other = Server(stack, groups[neighbours.index("load")], disk.place / "load", 5434) if "load" in neighbours else None
            server.ask("checkpoint")
            run("sync", "-f", disk.place)
            Path("/proc/sys/vm/drop_caches").write_text("3")
            self.weigh(stack, method, database, groups, limit_mb_s)
            agent = self.protect(stack, database, groups, work) if method == "protect" else None
            top = self.top(stack, work)
            started = [group.start(commands(name, disk, self.memory, other), cwd=str(disk.place)) for name, group in zip(neighbours, groups)]
            warm, seconds = options.warm, options.seconds
            begin = time.time()
            bench = subprocess.Popen(
                [str(server.bin / "pgbench"), *server.arguments(), "-n", "-c", "8", "-j", "2", "-T", str(warm + seconds), *self.pace(), "-l", "--log-prefix", str(work / "log"), "bench"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
            )
            stack.callback(lambda: (bench.poll() is None and bench.kill(), bench.wait()))
            time.sleep(warm)
            moved, before = [group.bytes(disk.number) for group in groups], (disk.bytes(), database.bytes(disk.number))
            measured = time.monotonic()
            bench.wait(timeout=warm + seconds + 120)
            measured = time.monotonic() - measured
            if bench.returncode:
                raise Failed(f"pgbench: {bench.stderr.read().strip()}")
            moved = [group.bytes(disk.number) - earlier for group, earlier in zip(groups, moved)]
            own, all_bytes = database.bytes(disk.number) - before[1], disk.bytes() - before[0]
            for name, one in zip(neighbours, started):
                if one.poll() is not None:
                    raise Failed(f"{name} has ended: {one.returncode}")
            lines = [line.split(" ") for log in work.glob("log.*") for line in log.read_text().splitlines()]
            took_ms = sorted(float(line[2]) / 1e3 for line in lines if float(line[4]) + float(line[5]) / 1e6 >= begin + warm)
            # Without any completed transaction there is no p99.
            if not took_ms:
                raise Failed("no transaction ended")
            result = {
                "tps": len(took_ms) / measured, "p50": took_ms[len(took_ms) // 2], "p99": took_ms[min(int(len(took_ms) * 0.99), len(took_ms) - 1)],
                "neighbours": sum(moved) / measured / 1e6, "kernel": (all_bytes - sum(moved) - own) / measured / 1e6,
                "said": agent() if agent else "", **self.times(top, database),
            }
            return result

    def pace(self):
        return ["-R", str(self.options.rate)] if self.options.rate else []

    def weigh(self, stack, method, database, groups, limit_mb_s):
        name = {"bfq": "io.bfq.weight", "iocost": "io.weight"}.get(method)
        if name:
            for group, weight in [(database, 1000)] + [(group, 10) for group in groups]:
                (group.folder / name).write_text(f"default {weight}")
        if method == "iocost":
            qos = self.hierarchy / "io.cost.qos"
            qos.write_text(f"{self.disk.number} enable=1")
            stack.callback(lambda: qos.write_text(f"{self.disk.number} enable=0"))
        if limit_mb_s:
            for group in groups:
                rate = limit_mb_s * 1_000_000
                (group.folder / "io.max").write_text(f"{self.disk.number} rbps={rate} wbps={rate}")

    def protect(self, stack, database, groups, work):
        """Starts seekwise-agent protect; returns a function that reads its output so far."""
        read_ms, fsync_ms = self.promise
        config = work / "agent.toml"
        config.write_text(f'socket = "{work}/agent.sock"\napplier_socket = "{work}/applier.sock"\nstate_directory = "{work}/state"\n')
        limits = [word for group in groups for word in ("--limit", group.path(self.hierarchy))]
        promises = (["--read-p99", f"{read_ms:.2f}ms"] if read_ms else []) + (["--fsync-p99", f"{fsync_ms:.2f}ms"] if fsync_ms else [])
        said = work / "said"
        process = subprocess.Popen(
            [str(self.options.programs / "seekwise-agent"), "protect", database.path(self.hierarchy), *promises, "--on", self.disk.name, *limits,
             "--journal", str(work / "journal"), "--config", str(config)],
            stdin=subprocess.DEVNULL, stdout=said.open("w"), stderr=subprocess.STDOUT, start_new_session=True, env=os.environ | {"COLUMNS": "300"},
        )

        def stop():
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.wait()

        stack.callback(stop)
        until("the agent protects", lambda: "Protecting" in said.read_text() or process.poll() is not None)
        if process.poll() is not None:
            raise Failed(f"seekwise-agent protect: {said.read_text()}")
        return said.read_text

    def top(self, stack, work):
        """Starts seekwise-agent top; returns the file that gets its tables as JSON lines."""
        file = work / "top"
        process = subprocess.Popen(
            [str(self.options.programs / "seekwise-agent"), "top", "--on", self.disk.name, "--json", "--interval", f"{self.options.seconds}s"],
            stdin=subprocess.DEVNULL, stdout=file.open("w"), stderr=subprocess.DEVNULL, start_new_session=True,
        )

        def stop():
            process.send_signal(signal.SIGINT)
            process.wait()

        stack.callback(stop)
        return file

    def times(self, top, database):
        """Returns the p99 of the database's reads and fsync calls in milliseconds, None without any, and the units that it waited behind."""
        until("top has a table", lambda: top.read_text().count("\n") > 0, self.options.seconds + 60)
        rows = json.loads(top.read_text().splitlines()[0])["units"]
        path = database.path(self.hierarchy)
        own = next((row for row in rows if row["cgroup"] == path), {})
        if self.options.top:
            for row in rows:
                print("  ", {key: value for key, value in row.items() if key != "behind"}, [(b["unit"], round(b["share_percent"])) for b in row["behind"][:4]])
        short = lambda name: name.rsplit("/", 1)[-1]
        behind = ", ".join(f"{short(one['unit'])} {one['share_percent']:.0f}%" for one in own.get("behind", [])[:3])
        p99 = lambda kind: (own.get(kind) or {}).get("p99_ms")
        return {"read": p99("read"), "fsync": p99("fsync"), "behind": behind}

    def oracle(self, neighbours, wanted_ms):
        """Returns the run with the highest limit of --step that keeps the p99, else the one with the lowest p99."""
        best = None
        for step in self.options.step:
            found = self.run("oracle", neighbours, step) | {"limit": step}
            if best is None or found["p99"] < best["p99"]:
                best = found
            if found["p99"] <= wanted_ms:
                return found
        return best


def line(name, method, found, alone):
    figure = lambda value: "–" if value is None else f"{value:.1f}"
    times = f"{found['p99'] / alone['p99']:.2f}" if alone else "1"
    limit = f" {found['limit']} MB/s" if "limit" in found else ""
    cells = [name, method + limit, *(figure(found[key]) for key in ["tps", "p50", "p99"]), times,
             *(figure(found[key]) for key in ["neighbours", "kernel", "read", "fsync"]), found["behind"]]
    print(f"| {' | '.join(cells)} |", flush=True)


def table(options, hierarchy, stack):
    """Prints the rows of all disks. Returns the p99 relative to that alone, by disk, neighbour and method."""
    memory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="seekwise-services-", dir="/dev/shm")))
    sources(memory)
    image = options.image or memory / "image"
    if not image.exists():
        made = image.with_suffix(".part")
        stack.callback(lambda: made.unlink(missing_ok=True))
        made_image(stack, hierarchy, made)
        made.rename(image)
    (hierarchy / "cgroup.subtree_control").write_text("+io")
    base = Group(stack, hierarchy, f"seekwise-services-{os.getpid()}")
    (base.folder / "cgroup.subtree_control").write_text("+io")
    ratios = {}
    for name in options.disk:
        with contextlib.ExitStack() as own:
            folder = Path(own.enter_context(tempfile.TemporaryDirectory(prefix="disk-", dir=memory)))
            folder.chmod(0o755)
            bench = Bench(options, hierarchy, base.folder, memory, Disk(own, options.programs, name, image, folder))
            print(f"\n{name}, {options.seconds} s each\n\n| neighbour | method | transactions/s | p50 ms | p99 ms | times alone | neighbours MB/s | kernel MB/s "
                  "| read p99 ms | fsync p99 ms | waits behind |\n|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
            alone = bench.run("alone", [])
            line("none", "alone", alone, None)
            bench.promise = tuple(alone[kind] and options.times * alone[kind] for kind in ("read", "fsync"))
            for neighbour in options.neighbour:
                neighbours = NEIGHBOURS if neighbour == "all" else [neighbour]
                for method in (method for method in options.method if method != "alone"):
                    found = bench.oracle(neighbours, BAR * alone["p99"]) if method == "oracle" else bench.run(method, neighbours)
                    line(neighbour, method, found, alone)
                    if options.top and found["said"]:
                        print(found["said"])
                    ratios[name, neighbour, method] = found["p99"] / alone["p99"]
    return ratios


def measure(options):
    """Sets up, measures and cleans up. Returns the p99 relative to that alone, by disk, neighbour and method."""
    if os.geteuid() != 0:
        raise Failed("needs root")
    with contextlib.ExitStack() as stack:
        return table(options, mount_of_cgroups(), stack)


def say_bar(ratios, rate):
    """Prints the bar: pgbench beside a backup on the 7,200 rpm drive."""
    protected, nothing = (ratios.get(("sata7200", "backup", method)) for method in ("protect", "nothing"))
    if protected is not None:
        name = "pgbench's p99 beside a backup" + (f", {rate} transactions/s" if rate else "")
        beside = f", {nothing:.2f} unprotected" if nothing else ""
        say(name, f"{protected:.2f} times{beside}", WANTED, protected <= BAR)


def parser(description):
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--disk", action="append", help="of `seekwise disk list`; may be repeated [default: sata7200, sd-card, cloud-volume]")
    options.add_argument("--neighbour", action="append", choices=[*NEIGHBOURS, "all"], help="may be repeated [default: each, and all]")
    options.add_argument("--method", action="append", choices=METHODS, help="may be repeated [default: each]")
    options.add_argument("--seconds", type=int, default=60, help="of each run")
    options.add_argument("--warm", type=int, default=10, help="seconds before that which do not count")
    options.add_argument("--rate", type=int, help="transactions per second; times then count from when each was due [default: as many as it can]")
    options.add_argument("--times", type=float, default=1.3, help="the promise: this many times the p99 of reads and of fsync alone")
    options.add_argument("--step", type=int, action="append", help="MB/s that the oracle tries, from the highest; may be repeated [default: 64, 32, … 1]")
    options.add_argument("--programs", type=Path, default=ROOT / "target/debug", help="where seekwise and seekwise-agent are")
    options.add_argument("--image", type=Path, help="file with the prepared file system: made if there is none, and kept")
    options.add_argument("--top", action="store_true", help="print the table of all units and what the agent said")
    return options


def parsed(options):
    options.disk = options.disk or DISKS
    options.neighbour = options.neighbour or [*NEIGHBOURS, "all"]
    options.method = options.method or METHODS
    options.step = options.step or STEPS
    return options


def main():
    options = parsed(parser(__doc__).parse_args())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        say_bar(measure(options), options.rate)
    except Failed as failed:
        sys.exit(f"services.py: {failed}")
    except KeyboardInterrupt:
        sys.exit(130)
    end()


if __name__ == "__main__":
    main()
