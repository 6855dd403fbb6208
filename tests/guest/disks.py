"""Checks of the agent on disks of several drivers, and on devices on top of them."""
import os, re, shutil, signal, subprocess, threading, time
from pathlib import Path

from guest.basics import Failed, Reporter, active, differences, read, settings, until, write

# The kernel's names of the disks, which follow from the order in which they are attached and in which the modules are loaded.
DISKS = {"virtio-blk": "vda", "virtio-scsi": "sda", "ahci": "sdb", "usb": "sdc", "nvme": "nvme0n1"}
STACKED = {"raid1": ("md1", ["vdb", "vdc"]), "raid5": ("md5", ["vdd", "vde", "vdf"]), "lvm": ("lvm", ["vdg"]), "crypt": ("crypt", ["vdh"])}
# Devices that the agent leaves alone, and the reason; a multipath device has the paths.
ALONE = {"multipath": ("multipath", ["vdi", "vdj"], "multipath device"), "zoned": ("nullb0", [], "zoned device")}


class Agent:
    """`seekwise-agent act` with a configuration that makes it change settings every second, whatever the load."""

    def __init__(self, guest, name, devices, configuration=""):
        self.folder = Path("/run", name)
        self.folder.mkdir()
        self.configuration, self.journal = self.folder / "agent.toml", self.folder / "journal"
        self.configuration.write_text(f'socket = "{self.folder}/agent.sock"\napplier_socket = "{self.folder}/applier.sock"\nstate_directory = "{self.folder}/state"\n'
                                      'controller = "rotate:window_ms=1000"\ncandidates = ["linux"]\nchanges_per_minute = 60\n' + configuration)
        self.guest, self.log = guest, self.folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([guest.program("seekwise-agent"), "act", *devices, "--journal", self.journal, "--config", self.configuration],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def said(self):
        return self.log.read_text(errors="replace")

    def run(self, *arguments):
        return self.guest.run("seekwise-agent", *arguments, "--config", self.configuration)

    def is_running(self):
        if self.process.poll() is not None:
            raise Failed(f"the agent ended by itself with {self.process.returncode}", self.said())
        return True

    def history(self):
        return self.run("history").stdout

    def until(self, what, holds):
        until(what, lambda: self.is_running() and holds(), output=self.said)

    def interrupt(self):
        """Ends it as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Failed("the agent does not end within 60 s of SIGINT", self.said())
        if code:
            raise Failed(f"the agent ended with {code} on SIGINT", self.said())

    def kill(self, is_changed):
        """Kills agent and applier at once, so that neither can react to the other's death, at a moment at which `is_changed`."""
        begin = time.monotonic()
        while True:
            tasks = [read(task / "children") or "" for task in Path(f"/proc/{self.process.pid}/task").iterdir()]
            appliers = [int(child) for child in " ".join(tasks).split()]
            self.process.send_signal(signal.SIGSTOP)
            # The applier finishes its request.
            time.sleep(1)
            if not appliers or is_changed() or time.monotonic() - begin > 60:
                break
            self.process.send_signal(signal.SIGCONT)
            time.sleep(0.3)
        for applier in appliers:
            os.kill(applier, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        if not appliers:
            raise Failed("the agent has no applier", self.said())

    def drop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Disks(Reporter):
    def __init__(self, task):
        super().__init__(task["kernel"])
        self.checks, self.wanted, self.loads = task["checks"], task["devices"], {}
        # Read once, and not for each start.
        self.folder = Path("/run/programs")
        shutil.copytree(task["programs"], self.folder)

    def program(self, name):
        return str(self.folder / name)

    def run(self, program, *arguments, seconds=120):
        command = [self.program(program), *map(str, arguments)]
        begin = time.monotonic()
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=seconds, env={**os.environ, "COLUMNS": "160"})
        except subprocess.TimeoutExpired as late:
            raise Failed(f"{program} {arguments[0]} does not end within {seconds} s", f"{late.stdout or ''}\n{late.stderr or ''}")
        done.seconds = time.monotonic() - begin
        done.said = f"$ {program} {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}"
        return done

    def devices(self):
        return {device: name for device, name in DISKS.items() if not self.wanted or device in self.wanted}

    def fio(self, name, device, cgroup, *options):
        command = ["fio", f"--name={name}", f"--filename=/dev/{device}", "--eta=never", "--direct=1", "--time_based", "--thread", f"--output=/tmp/{name}", *options]

        Path("/sys/fs/cgroup", cgroup).mkdir(exist_ok=True)

        def enter():
            write(f"/sys/fs/cgroup/{cgroup}/cgroup.procs", str(os.getpid()))
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=enter)

    # Loads: one that is observed, and one that makes a device busy now and then.
    REQUESTS = ("--iodepth=8", "--ioengine=libaio", "--rate_iops=120")
    FEW_REQUESTS = ("--iodepth=1", "--ioengine=psync", "--rate_iops=20")

    def start_load(self, device, options):
        self.loads[device] = self.fio(f"reads-{device}", device, f"fio-{device}", "--rw=randread", "--bs=4k", "--runtime=900", "--size=900M", *options)

    def end_loads(self):
        for device in list(self.loads):
            self.end_load(device)

    def end_load(self, device):
        load = self.loads.pop(device, None)
        if load:
            load.terminate()
            load.wait()

    def everything(self):
        present = {}
        for device, name in self.devices().items():
            if Path("/sys/block", name).exists():
                present[device] = name
            else:
                for check in self.checks:
                    if check not in ("stacked", "alone", "protect"):
                        self.say(check, device, "skipped", f"{name} is missing: this kernel has no such driver, or it does not load")
        for device, name in present.items():
            if {"top", "advise"} & set(self.checks):
                began = self.reads(name)
                self.start_load(name, self.REQUESTS)
                until("fio reads", lambda: self.reads(name) > began + 100)
            if "top" in self.checks:
                self.check("top", device, lambda: self.top(name))
            if "advise" in self.checks:
                self.check("advise", device, lambda: self.advise(name))
            self.end_load(name)
        if "stacked" in self.checks:
            self.stacked()
        if "alone" in self.checks:
            self.alone()
        if "protect" in self.checks and "virtio-blk" in present:
            self.check("protect", "virtio-blk", lambda: self.protect(present["virtio-blk"]))
        if {"act", "kill", "removal"} & set(self.checks):
            references = {name: self.reference(name) for name in present.values()}
            for name in present.values():
                self.start_load(name, self.FEW_REQUESTS)
        if "act" in self.checks:
            self.act(present, references)
        if "kill" in self.checks:
            self.kill(present)
        if "removal" in self.checks:
            self.removal(present)

    @staticmethod
    def at_once(*calls):
        threads = [threading.Thread(target=function, args=arguments) for function, *arguments in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    # ---- the checks ----

    def top(self, name):
        """fio's cgroup is named, with the rate that the kernel counted."""
        reads, begin = self.reads(name), time.monotonic()
        done = self.run("seekwise-agent", "top", "--on", name, "--interval", "2s", "--count", "1")
        rate = (self.reads(name) - reads) / (time.monotonic() - begin)
        row = next((line.split() for line in done.stdout.splitlines() if line.strip().startswith(f"/fio-{name}")), None)
        if done.returncode or row is None:
            raise Failed(f"it ends with {done.returncode}" + ("" if row else " and does not name the cgroup of fio"), done.said)
        # fio issues requests at an even pace, so the rates of two intervals differ by one or two requests.
        if abs(float(row[3].replace(",", "")) / rate - 1) > 0.05:
            raise Failed(f"it says {row[3]} requests/s, and the kernel counted {rate:.0f}", done.said)
        return f"{row[3]} requests/s; the kernel counted {rate:.0f}"

    @staticmethod
    def reads(name):
        return int(read(f"/sys/block/{name}/stat").split()[0])

    def advise(self, name):
        """It ends with a verdict."""
        done = self.run("seekwise", "advise", f"/dev/{name}", "--for", "8", seconds=180)
        verdict = next((line for line in done.stdout.splitlines() if re.match(r"(Use|Keep|Leave) ", line)), None)
        if done.returncode or verdict is None:
            raise Failed(f"it ends with {done.returncode}" + ("" if verdict else " and without a verdict"), done.said)
        return f"{done.seconds:.0f} s: {verdict}"

    def reference(self, name):
        """All attributes under each scheduler, as set by hand: the kernel sets others with it. Leaves the original one active."""
        queue = Path("/sys/block", name, "queue")
        offered = read(queue / "scheduler").replace("[", "").replace("]", "").split()
        original, states = active(read(queue / "scheduler")), {}
        for scheduler in [*(one for one in offered if one != original), original]:
            write(queue / "scheduler", scheduler)
            states[scheduler] = settings(name)
        return states

    LISTED = re.compile(r"scheduler|read_ahead_kb|iosched/.*")

    def act(self, present, references):
        """It changes listed attributes only; an administrator's change stays; all else is restored at the end."""
        before = {name: settings(name) for name in present.values()}
        agent = Agent(self, "act", present.values())
        seen, faults, theirs = {name: {} for name in present.values()}, {name: [] for name in present.values()}, {}

        def look(name):
            now = settings(name)
            scheduler = active(now.get("scheduler"))
            # A state within a switch is none.
            if now == before[name] or settings(name) != now:
                return
            for attribute in now.keys() | before[name].keys():
                value = now.get(attribute)
                if value == before[name].get(attribute):
                    continue
                seen[name][attribute] = active(value)
                if not self.LISTED.fullmatch(attribute) and value != references[name][scheduler].get(attribute):
                    faults[name].append(f"{attribute} was set to {value} under {scheduler}, and was {before[name].get(attribute)}")
        try:
            try:
                agent.until("the agent changes each device", lambda: [look(name) for name in seen] and all(seen.values()))
            except Failed:
                if agent.process.poll() is not None:
                    raise
            begin = time.monotonic()
            while time.monotonic() - begin < 6 and agent.is_running():
                for name in seen:
                    look(name)
                time.sleep(0.3)
            for name in seen:
                now = active(read(f"/sys/block/{name}/queue/scheduler"))
                choice = [scheduler for scheduler in references[name] if scheduler not in (now, active(before[name]["scheduler"]), "bfq")]
                theirs[name] = choice[0]
                write(f"/sys/block/{name}/queue/scheduler", theirs[name])
            time.sleep(6)
            stayed = {name: active(read(f"/sys/block/{name}/queue/scheduler")) for name in seen}
            status = agent.run("status").stdout
            history = agent.history()
            agent.interrupt()
        except Failed as failed:
            for device in present:
                self.say("act", device, "failed", failed, failed.output)
            return
        finally:
            agent.drop()
        said = f"{agent.said()}\n$ seekwise-agent status\n{status}\n$ seekwise-agent history\n{history}"
        for device, name in present.items():
            self.check("act", device, lambda: self.judge(name, (seen[name], faults[name], theirs[name], stayed[name]), (before[name], references[name]), said))

    def judge(self, name, run, states, said):
        (seen, faults, theirs, stayed), (before, references) = run, states
        after = settings(name)
        if not seen:
            raise Failed("the agent changed nothing", said)
        if faults:
            raise Failed(f"outside of its list: {faults[0]}", said)
        if stayed != theirs:
            raise Failed(f"the administrator's {theirs} was replaced by {stayed}", said)
        wanted = dict(references[theirs])
        if after != wanted:
            raise Failed(f"not as the administrator's {theirs} alone leaves it: {'; '.join(differences(wanted, after))}", said)
        write(f"/sys/block/{name}/queue/scheduler", active(before["scheduler"]))
        changed = differences(before, settings(name))
        return f"set {', '.join(f'{key}={value}' for key, value in sorted(seen.items()) if value is not None and self.LISTED.fullmatch(key))[:90]}; the administrator's {theirs} stayed" + \
            (f"; by hand {'; '.join(changed)}" if changed else "")

    def kill(self, present):
        before = {name: settings(name) for name in present.values()}
        agent = Agent(self, "kill", present.values())
        try:
            def is_changed():
                return all(settings(name) != before[name] for name in before)
            agent.until("the agent changes each device", is_changed)
            agent.kill(is_changed)
        except Failed as failed:
            for device in present:
                self.say("kill", device, "failed", failed, failed.output)
            return
        finally:
            agent.drop()
        left = {name: differences(before[name], settings(name)) for name in before}
        restored = agent.run("restore", "--journal", agent.journal)
        for device, name in present.items():
            def judge():
                wrong = differences(before[name], settings(name))
                if restored.returncode or wrong:
                    raise Failed(f"restore ended with {restored.returncode}; {'; '.join(wrong) or 'all is as before'}", f"{agent.said()}\n{restored.said}")
                if not left[name]:
                    raise Failed("nothing was set when they were killed", f"{agent.said()}\n{restored.said}")
                return f"restored {len(left[name])} attributes: {'; '.join(left[name])[:90]}"
            self.check("kill", device, judge)

    def removal(self, present):
        """SCSI disks are removed while the agent tunes all: it says so, ends as usual, has restored the others, and has nothing to restore of these."""
        removed = {name for name in present.values() if name.startswith("sd")}
        before = {name: settings(name) for name in present.values()}
        agent = Agent(self, "removal", present.values())
        try:
            agent.until("the agent changes each device", lambda: all(settings(name) != before[name] for name in before))
            for name in removed:
                write(f"/sys/block/{name}/device/delete", "1")

            def missed():
                return {name for name in removed if f"{name}: no longer monitored" not in agent.history()}
            try:
                agent.until("the agent says that the devices are gone", lambda: not missed())
            except Failed:
                agent.is_running()
            silent, history = missed(), agent.history()
            agent.interrupt()
        except Failed as failed:
            for device, name in present.items():
                self.say("removal", device, "failed", failed, failed.output)
            return
        finally:
            agent.drop()
        left = {name: differences(before[name], settings(name)) for name in before.keys() - removed}
        restored = agent.run("restore", "--journal", agent.journal)
        said = f"{agent.said()}\n{history}\n{restored.said}"
        for device, name in present.items():
            def judge():
                if name in silent:
                    raise Failed("the agent does not say that the device is gone", said)
                if restored.returncode:
                    raise Failed(f"restore ended with {restored.returncode}", said)
                if "panicked" in said:
                    raise Failed("it panicked", said)
                if name not in removed:
                    if left[name]:
                        raise Failed(f"not as before: {'; '.join(left[name])}", said)
                    return "stays; as before after the end"
                return next(line for line in history.splitlines() if f"{name}: no longer" in line).split(" UTC ")[-1] + "; restore: " + restored.stdout
            self.check("removal", device, judge)

    def stacked(self):
        ready = {}
        for device, (name, below) in STACKED.items():
            if self.wanted and device not in self.wanted:
                continue
            why = next((f"{disk} is missing" for disk in below if not Path("/sys/block", disk).exists()), None) or self.stack(device, name, below)
            if why:
                self.say("stacked", device, "skipped", why)
            else:
                ready[device] = (self.kernel_name(device, name), below)
        checks = [[self.check, "stacked", device, lambda name=name, below=below: self.judge_stacked(name, below)] for device, (name, below) in ready.items()]
        self.at_once(*checks)

    @staticmethod
    def kernel_name(device, name):
        """The kernel's name of a stacked device; the device mapper numbers its own."""
        given = {"lvm": "kernels-lvm"}.get(device, name)
        return next((folder.name for folder in Path("/sys/block").glob("dm-*") if read(folder / "dm/name") == given), name)

    def stack(self, device, name, below):
        """Creates a device on other disks; returns an error message, or None."""
        disks = [f"/dev/{disk}" for disk in below]
        sectors = int(read(f"/sys/block/{below[0]}/size"))
        array = ["mdadm", "--create", f"/dev/{name}", "--run", "--assume-clean", "--metadata=1.2", "--bitmap=none", f"--level={device[-1]}", f"--raid-devices={len(disks)}"]
        lvm = ["--config", "activation { udev_sync=0 udev_rules=0 verify_udev_operations=1 } devices { obtain_device_list_from_udev=0 }"]
        commands = {"raid1": [array + disks], "raid5": [array + disks],
                    "lvm": [["pvcreate", *lvm, *disks], ["vgcreate", *lvm, "kernels", *disks], ["lvcreate", *lvm, "-y", "-Wn", "-Zn", "-n", "lvm", "-l", "100%FREE", "kernels"]],
                    "crypt": [["dmsetup", "create", "crypt", "--noudevsync", "--noudevrules", "--table", f"0 {sectors} crypt aes-xts-plain64 {'5eed' * 16} 0 {disks[0]} 0"]]}
        for command in commands[device]:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            if done.returncode:
                return f"{command[0]}: {done.stderr.strip()}"
        return None

    def judge_stacked(self, name, below):
        """`watch` works, or refuses with the names of the disks below; `act` changes nothing of a device without a queue of its own."""
        load = self.fio(f"reads-{name}", name, f"fio-{name}", "--rw=randread", "--bs=4k", "--runtime=120", *self.FEW_REQUESTS)
        try:
            watched = self.run("seekwise-agent", "watch", name, "--for", "5")
            before = {disk: settings(disk) for disk in (name, *below)}
            agent = Agent(self, f"act-{name}", [name])
            during, begin, started = [], time.monotonic(), None
            while agent.process.poll() is None and not during and time.monotonic() - (started or begin + 60) < 4:
                during = [f"{disk}: {line}" for disk in before for line in differences(before[disk], settings(disk))]
                started = started or ("tuning" in agent.said() and time.monotonic()) or None
                time.sleep(0.5)
            code = agent.process.poll()
            if code is None:
                agent.interrupt()
        finally:
            load.terminate()
            load.wait()
        said = f"{watched.said}\n$ seekwise-agent act {name}\n{agent.said()}"
        if watched.returncode and not all(disk in watched.said for disk in below):
            raise Failed("watch does not name the disks below", said)
        if during or code not in (None, 1):
            raise Failed(f"act ended with {code}, and changed {'; '.join(during) or 'nothing'}", said)
        if not all(disk in agent.said() for disk in below):
            raise Failed("act changes nothing, and does not say that the disks below have the queue", said)
        return f"watch: {watched.stdout}{watched.stderr}"

    def alone(self):
        """Devices whose settings are not the agent's to choose: it names the reason, also when it is told to tune them, and changes nothing."""
        for device, (name, paths, reason) in ALONE.items():
            if self.wanted and device not in self.wanted:
                continue
            if paths:
                sectors = read(f"/sys/block/{paths[0]}/size")
                group = " ".join(f"{read(f'/sys/block/{path}/dev')} 1" for path in paths)
                table = f"0 {sectors} multipath 0 0 1 1 round-robin 0 {len(paths)} 1 {group}"
                done = subprocess.run(["dmsetup", "create", name, "--noudevsync", "--noudevrules", "--table", table], capture_output=True, text=True)
                if done.returncode:
                    self.say("alone", device, "skipped", done.stderr)
                    continue
            name = self.kernel_name(device, name)
            if not Path("/sys/block", name).exists():
                self.say("alone", device, "skipped", f"{name} is missing: this kernel has no such driver, or it does not load")
                continue
            self.check("alone", device, lambda: self.judge_alone([name, *paths], reason))

    def judge_alone(self, names, reason):
        before = {name: settings(name) for name in names}
        # Named on the command line, all but a zoned device would be tuned.
        tables = 'mode = "leave-alone"\n' + "".join(f'[[device]]\nname = "{name}"\nmode = "act"\n' for name in names)
        agent = Agent(self, f"alone-{names[0]}", names if reason == "zoned device" else [], tables)
        try:
            agent.until("it answers", lambda: agent.run("status").returncode == 0)
            time.sleep(3)
            status = agent.run("status").stdout
            agent.interrupt()
        finally:
            agent.drop()
        said = f"{agent.said()}\n{status}"
        changed = [f"{name}: {line}" for name in names for line in differences(before[name], settings(name))]
        if changed or " -> " in agent.said():
            raise Failed(f"it changed {'; '.join(changed) or 'something for a while'}", said)
        unnamed = [name for name in names if not any(name in line and reason in line for line in status.splitlines())]
        if unnamed:
            raise Failed(f"it does not say of {', '.join(unnamed)}: {reason}", said)
        return next(line for line in status.splitlines() if reason in line)

    def protect(self, name):
        """Next to 32 large reads at once, the reader's p99 is lower with a promise; the neighbour's limits are gone after the end."""
        for group in ("a", "b"):
            Path("/sys/fs/cgroup", group).mkdir(exist_ok=True)
        write("/sys/fs/cgroup/cgroup.subtree_control", "+io")
        limits = Path("/sys/fs/cgroup/b/io.max")
        if not limits.exists():
            raise Failed("no io.max: this kernel has no limits of cgroups")
        before, begin = read(limits), time.monotonic()
        # It thinks between its reads. With `rate_iops`, fio would make up for those that it was late with, at several hundred a second.
        reader = self.fio("reader", name, "a", "--rw=randread", "--bs=4k", "--iodepth=1", "--ioengine=psync", "--thinktime=25ms", "--runtime=60", "--size=500m",
                          "--write_lat_log=/tmp/reader", "--log_offset=0")
        flood = self.fio("flood", name, "b", "--rw=randread", "--bs=64k", "--iodepth=32", "--ioengine=libaio", "--runtime=60", "--size=500m", "--offset=500m")
        agent, log = None, Path("/tmp/protect.log")
        try:
            time.sleep(17)
            folder = Path("/run/protect")
            folder.mkdir()
            configuration = folder / "agent.toml"
            configuration.write_text(f'socket = "{folder}/agent.sock"\napplier_socket = "{folder}/applier.sock"\nstate_directory = "{folder}/state"\n')
            command = [self.program("seekwise-agent"), "protect", "/a", "--read-p99", "40ms", "--limit", "/b", "--on", name, "--journal", folder / "journal",
                       "--config", configuration]
            started = time.monotonic() - begin
            with log.open("wb") as out:
                agent = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
            time.sleep(20)
            during, ended = read(limits), time.monotonic() - begin
            agent.send_signal(signal.SIGINT)
            code = agent.wait(60)
        finally:
            for process in (agent, reader, flood):
                if process and process.poll() is None:
                    process.terminate()
                    process.wait()
        said, after = log.read_text(errors="replace"), read(limits)
        rows = [line.split(",") for line in next(Path("/tmp").glob("reader_lat.*log")).read_text().splitlines()]
        # Some seconds pass before fio runs, and before the promise is kept.
        without = self.p99_ms(rows, 0, started - 2)
        kept = self.p99_ms(rows, started + 8, ended - 1)
        figures = f"p99 of reads {without:.0f} ms without and {kept:.0f} ms with a promise of 40 ms; limited to {during or 'nothing'}"
        if code:
            raise Failed(f"it ends with {code}", said)
        if after != before:
            raise Failed(f"limits are left: {after}", said)
        # Without an effect one of both is lower by chance.
        if kept > 0.9 * without:
            raise Failed(f"not lower by a tenth: {figures}", said)
        return figures

    @staticmethod
    def p99_ms(rows, begin_s, end_s):
        times = sorted(int(row[1]) for row in rows if 1000 * begin_s <= int(row[0]) <= 1000 * end_s)
        if len(times) < 60:
            raise Failed(f"only {len(times)} reads were logged between {begin_s:.0f} and {end_s:.0f} s")
        return times[int(0.99 * len(times))] / 1e6
