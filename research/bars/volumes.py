"""Bars about volumes: crashes, power cuts, faults, moves under load, and random contracts in real time compared with the simulator."""
import json, os, random, re, statistics, sys, time
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen

from bars import ROOT, call

# Tests of the server: name, environment variable with the number of repetitions, and expected output.
DRIVERS = [
    ("crash::what_was_acknowledged_as_durable_is_there_after_many_kills", "KILLS", "kills under verified writes: blocks lost"),
    ("faults::what_was_flushed_is_there_after_many_power_cuts", "CUTS", "power cuts (store and catalog): blocks lost"),
    ("crash::a_volume_that_moves_is_whole_after_many_kills", "MOVE_KILLS", "kills during moves: blocks lost"),
    ("faults::a_store_that_stalls_for_30_seconds_holds_up_only_its_own_volumes", None, "a store that stalls for 30 s: others"),
    ("moves::a_plan_names_the_move_with_which_stores_keep_their_promises_and_makes_it", None, "a plan that is applied"),
    ("moves::a_plan_is_made_without_being_asked_within_its_limits", None, "a plan without being asked"),
]
# Size of a volume that fits on every reference disk, in extents of 64 MiB.
MIB = 960
HOSTS = {"7,200 rpm disk": "sata7200", "RAID 10 of four": "raid10:disk=sata7200,disks=4,stripe_unit_kib=64", "flash disk": "ssd-dftl"}
REFERENCES = {"7,200 rpm disk": ["hp_c2247a", "barracuda", "ibm18es"], "RAID 10 of four": ["barracuda", "ibm18es", "atlas10k"],
              "flash disk": ["ibm18es", "atlas10k", "sata7200"]}


def faults(given, say):
    """Runs the server's crash and fault tests with many repetitions."""
    times = {"KILLS": str(given.kills), "CUTS": str(given.cuts), "MOVE_KILLS": str(given.move_kills), "SEED": str(given.seed)}
    for test, variable, name in DRIVERS:
        done = call("cargo", "test", "--locked", "-q", "-p", "seekwise-serve", "--test", "serve", "--", "--ignored", "--exact", test, "--nocapture",
                    cwd=ROOT, env={**os.environ, **times})
        text = done.stdout + done.stderr
        if "skipped: needs" in text:
            say(name, re.search(r"skipped: (.*)", text)[1][:28], "", None)
            continue
        told = re.search(r".* none lost", text)
        is_met = done.returncode == 0 and "1 passed" in text
        wanted = f"none after {times[variable]}" if variable else "is as it should be"
        say(name, ("none" if told else "it is") if is_met else "see below", wanted, is_met)
        if told:
            print("  " + told[0])
        if not is_met:
            print(text[-2000:], file=sys.stderr)


class Emulated:
    """seekwise-serve with emulated stores."""

    def __init__(self, given, folder, stores):
        self.program, self.folder = str(given.programs / "seekwise-serve"), folder
        folder.mkdir(exist_ok=True)
        for left in folder.iterdir():
            left.unlink()
        text = f"catalog = '{folder}/serve.db'\ncontrol = '{folder}/control'\n[[listen]]\nunix = '{folder}/nbd'\n"
        (folder / "serve.toml").write_text(text + "".join(f"[[store]]\nname = '{name}'\nemulated = '{disk}'\n" for name, disk in stores.items()))
        self.process = Popen([self.program, "--config", folder / "serve.toml"], stderr=open(folder / "log", "w"))
        while "ready" not in (folder / "log").read_text():
            if self.process.poll() is not None:
                sys.exit((folder / "log").read_text())
            time.sleep(0.01)

    def volume(self, *arguments):
        done = call(self.program, "volume", *arguments, "--control", f"{self.folder}/control")
        if done.returncode:
            sys.exit(done.stderr)
        return done.stdout

    def status(self, name):
        return next(volume for volume in json.loads(self.volume("status", "--json"))["volumes"] if volume["name"] == name)

    def uri(self, name):
        return f"nbd+unix:///{name}?socket={self.folder}/nbd"

    def end(self):
        self.process.kill()
        self.process.wait()


def moves(given, folder, say):
    """Moves a volume with a guarantee to another disk and back under load. The guarantee is kept in a second if at most 5% of its requests are later than
    on the reference disk because of others; the simulator likewise requires 95%."""
    server = Emulated(given, folder / "moves", {"one": "sata7200", "two": "sata7200"})
    server.volume("create", "a", "--store", "one", "--size", f"{MIB}M", "--thick", "--promise", 'reference = "barracuda"', "--unchecked")
    server.volume("create", "b", "--store", "two", "--size", f"{MIB}M", "--thick", "--promise", 'reference = "barracuda"', "--unchecked")
    # Write data, so that the move has something to copy.
    for name in "ab":
        call("qemu-io", "-f", "raw", server.uri(name), "-c", f"write -q -P 7 0 {MIB}M")
    load = [Popen(["fio", "--name=x", "--ioengine=nbd", f"--uri={server.uri(name)}", "--rw=randrw", "--rwmixread=70", "--bs=4k", "--iodepth=2", "--time_based",
                   "--runtime=600", f"--size={MIB}M"], stdout=DEVNULL, stderr=DEVNULL) for name in "ab"]
    time.sleep(3)
    seconds = {"a": [0, 0], "b": [0, 0]}
    moved = 0
    try:
        for to in ("two", "one")[:given.rounds]:
            server.volume("move", "a", "--to", to, "--unchecked", "--pace", "8M")
            before = {name: server.status(name) for name in "ab"}
            until = time.monotonic() + 240
            while time.monotonic() < until:
                time.sleep(1)
                now = {name: server.status(name) for name in "ab"}
                for name in "ab":
                    counts = [[each[name][key] or 0 for key in ("late_by_others", "judged")] for each in (before, now)]
                    # Counters restart at zero when the tenants of a store change.
                    late, judged = counts[1] if counts[1][1] < counts[0][1] else (counts[1][0] - counts[0][0], counts[1][1] - counts[0][1])
                    seconds[name][0] += 1
                    seconds[name][1] += late <= 0.05 * judged
                before = now
                if now["a"]["moving"] is None:
                    moved += now["a"]["store"] == to
                    break
    finally:
        for each in load:
            each.kill()
            each.wait()
        server.end()
    say("moves under load that came to their end", f"{moved} of {given.rounds if given.rounds < 2 else 2}", "all", moved == min(2, given.rounds))
    for name, what in (("a", "the volume that moves"), ("b", "the volume where it goes")):
        of, kept = seconds[name]
        say(f"promise kept while moving, {what}", f"{kept} of {of} s", "99%", kept >= 0.99 * of)


def drawn(draw, host):
    """Draws loads and guarantees of two to four volumes."""
    tenants = []
    for number in range(draw.choice([2, 3, 4])):
        rw = draw.choice(["randread", "randread", "randwrite", "randrw", "read", "write"])
        bs = draw.choice([4, 4, 16, 64]) if "rand" in rw else draw.choice([64, 256])
        depth = draw.choice([1, 2, 4, 8, 16])
        promise = draw.choice(["reference", "reference", "reservation", "limit", "none"])
        rates = {"7,200 rpm disk": 30, "RAID 10 of four": 90, "flash disk": 400}
        key = {"reference": f'reference = "{draw.choice(REFERENCES[host])}"', "reservation": f"reservation_iops = {draw.randint(5, rates[host])}",
               "limit": f"limit_iops = {draw.randint(20, 4 * rates[host])}", "none": ""}[promise]
        tenants.append({"name": f"t{number}", "rw": rw, "bs": bs, "depth": depth, "promise": promise, "key": key})
    return tenants


def simulated(given, folder, host, tenants):
    """Simulates the tenants; returns the figures of each by name."""
    lines, contract = ["[global]", "ioengine=libaio", "direct=1", "time_based=1", f"runtime={given.seconds}"], []
    for tenant in tenants:
        lines += [f"[{tenant['name']}]", f"rw={tenant['rw']}", f"bs={tenant['bs']}k", f"iodepth={tenant['depth']}", f"size={MIB}m"]
        contract += ["[[tenant]]", f'name = "{tenant["name"]}"', f'jobs = ["{tenant["name"]}"]', tenant["key"]]
    (folder / "jobs.fio").write_text("\n".join(lines) + "\n")
    (folder / "tenants.toml").write_text("\n".join(contract) + "\n")
    done = call(str(given.programs / "seekwise"), "simulate", str(folder / "jobs.fio"), "--disk", HOSTS[host], "--tenants", str(folder / "tenants.toml"),
                "--scheduler", "youchoose", "--json")
    if done.returncode:
        sys.exit(done.stderr)

    def find(value):
        if isinstance(value, dict):
            if "contract" in value and "tenants" in value:
                return value["tenants"]
            value = list(value.values())
        return next((found for each in value if (found := find(each))), None) if isinstance(value, list) else None
    return {tenant["name"]: tenant for tenant in find(json.loads(done.stdout))}


def by_clock(given, folder, host, tenants):
    """Runs the tenants in real time; returns by name the requests per second, and the share of requests delayed by others."""
    server = Emulated(given, folder / "server", {"disk": HOSTS[host]})
    for tenant in tenants:
        promise = ["--promise", tenant["key"]] if tenant["key"] else []
        server.volume("create", tenant["name"], "--size", f"{MIB}M", "--thick", "--unchecked", *promise)
    jobs = [f"[{tenant['name']}]\nuri={server.uri(tenant['name'])}\nrw={tenant['rw']}\nbs={tenant['bs']}k\niodepth={tenant['depth']}\n" for tenant in tenants]
    path = folder / "clock.fio"
    path.write_text(f"[global]\nioengine=nbd\ntime_based=1\nruntime={given.seconds}\nsize={MIB}m\n" + "".join(jobs))
    done = call("fio", str(path), "--output-format=json")
    if done.returncode:
        sys.exit(f"fio: {done.stderr or done.stdout}")
    time.sleep(1.1)
    got = {}
    for job in json.loads(done.stdout[done.stdout.index("{"):])["jobs"]:
        status = server.status(job["jobname"])
        judged, late = status["judged"] or 0, status["late_by_others"] or 0
        got[job["jobname"]] = {"iops": sum(job[way]["iops"] for way in ("read", "write")), "late": late / judged if judged else 0}
    server.end()
    return got


def contracts(given, folder, say):
    """Random contracts: share of the guarantees met in the simulator that are also met in real time."""
    folder = folder / "contracts"
    folder.mkdir()
    draw, kept, of, ratios = random.Random(given.seed), {host: 0 for host in HOSTS}, {host: 0 for host in HOSTS}, []
    for number in range(given.contracts):
        host = list(HOSTS)[number % len(HOSTS)]
        tenants = drawn(draw, host)
        there, here = simulated(given, folder, host, tenants), by_clock(given, folder, host, tenants)
        for tenant in tenants:
            one, other = there[tenant["name"]], here[tenant["name"]]
            if one["iops"]:
                ratios.append(other["iops"] / one["iops"])
            if tenant["promise"] == "none" or one["broken"]:
                continue
            of[host] += 1
            value = int(tenant["key"].split("=")[1]) if tenant["promise"] in ("reservation", "limit") else None
            # As in the simulator: at least 95% of the guarantee; with a reference disk, of the throughput on that disk.
            # A request of up to 256 KiB counts as one; sequential requests are merged.
            each = 256 / tenant["bs"] if "rand" not in tenant["rw"] else 1
            is_kept = {"reservation": lambda: other["iops"] >= 0.95 * min(value, one["iops"]), "limit": lambda: other["iops"] <= 1.05 * value * each,
                       "reference": lambda: other["iops"] >= 0.95 * one["reference"]["throughput_mb_s"] * 1e6 / (tenant["bs"] * 1024)}[tenant["promise"]]()
            kept[host] += is_kept
            if not is_kept:
                print(f"  contract {number}, {host}: {tenant}: {other['iops']:.0f}/s, simulated {one['iops']:.0f}/s, reference "
                      f"{(one['reference'] or {}).get('throughput_mb_s')} MB/s, late {100 * other['late']:.1f}%", file=sys.stderr)
    for host in HOSTS:
        say(f"promises kept by the clock where in simulation, {host}", f"{kept[host]} of {of[host]}", "95%", kept[host] >= 0.95 * of[host])
    say("throughput by the clock beside simulation, median of volumes", f"{statistics.median(ratios):.2f} times", "", None)
