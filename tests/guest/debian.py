"""Checks of the package on a Debian with systemd."""
import json, os, subprocess
from pathlib import Path

from guest.basics import Failed, Reporter, active, differences, read, settings, until
from guest.disks import Disks


class Debian(Reporter):
    """A Debian with the package: `stage` 1 installs it and ends by a power cut while the agent tunes, 2 is the boot after that."""
    AGENT, APPLIER, DISK = "seekwise-agent.service", "seekwise-applier.service", "vdb"
    JOURNAL, BEFORE = Path("/var/lib/seekwise"), Path("/var/lib/checks.json")

    def __init__(self, task):
        super().__init__(task["kernel"])
        self.stage, self.package, self.load = task["stage"], task["package"], None

    def everything(self):
        self.load = subprocess.Popen(["fio", "--name=reads", f"--filename=/dev/{self.DISK}", "--rw=randread", "--bs=4k", "--direct=1", "--time_based",
                                      "--runtime=900", "--thread", "--output=/dev/null", *Disks.FEW_REQUESTS], stdin=subprocess.DEVNULL)
        if self.stage == 1:
            self.before = settings(self.DISK)
            self.BEFORE.write_text(json.dumps(self.before))
            for name in ("install", "drop-ins", "start", "stop", "kill", "upgrade"):
                self.check("systemd", name, getattr(self, name.replace("-", "_")))
            self.sets_something()
            until("the journal has it", lambda: any(self.JOURNAL.glob("*.journal")))
            os.sync()
        else:
            self.before = json.loads(self.BEFORE.read_text())
            for name in ("reboot", "remove"):
                self.check("systemd", name, getattr(self, name))

    def end_loads(self):
        if self.load:
            self.load.terminate()

    def call(self, *command):
        done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=400)
        if done.returncode:
            raise Failed(f"{' '.join(map(str, command))} ends with {done.returncode}", f"{done.stdout}{done.stderr}\n{self.log()}")
        return done.stdout.strip()

    @staticmethod
    def log():
        return subprocess.run(["journalctl", "--boot", "--no-pager", "--output=short-monotonic", "--unit=seekwise-*"], capture_output=True, text=True).stdout

    def property(self, unit, name):
        return self.call("systemctl", "show", "--value", "--property", name, unit)

    def is_active(self, unit):
        return self.property(unit, "ActiveState") == "active"

    def as_before(self, when):
        wrong = differences(self.before, settings(self.DISK))
        if wrong:
            raise Failed(f"{when}, not as before: {'; '.join(wrong)}", self.log())

    def sets_something(self):
        self.call("systemctl", "start", self.AGENT)
        until("something is set", lambda: differences(self.before, settings(self.DISK)), output=self.log)

    # ---- the checks ----

    def install(self):
        self.call("dpkg", "--no-triggers", "--force-unsafe-io", "--install", self.package)
        if self.is_active(self.AGENT) or self.property(self.AGENT, "UnitFileState") != "disabled":
            raise Failed("the agent is active or enabled")
        self.as_before("installed")
        return f"systemd {self.call('systemctl', '--version').split()[1]}; disabled and inactive, nothing is set"

    def drop_ins(self):
        """A drop-in of the administrator replaces that of the same name in /run; the vendor's file applies where they are silent; the unit's drop-in applies."""
        for folder, mode in (("/run/seekwise", "leave-alone"), ("/etc/seekwise", "act")):
            Path(folder, "agent.toml.d").mkdir(parents=True, exist_ok=True)
            Path(folder, "agent.toml.d/50-test.conf").write_text(
                f'mode = "leave-alone"\n[[device]]\nname = "{self.DISK}"\nmode = "{mode}"\ncontroller = "rotate:window_ms=1000"\n'
                'candidates = ["kernel"]\nchanges_per_minute = 60\n')
        Path(f"/etc/systemd/system/{self.AGENT}.d/test.conf").write_text("[Service]\nNice=-3\n")
        self.call("systemctl", "daemon-reload")
        self.call("systemctl", "start", self.AGENT)
        status, pid = self.property(self.AGENT, "StatusText"), self.property(self.AGENT, "MainPID")
        nice = read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()[16]
        self.call("systemctl", "stop", self.AGENT)
        if status != "tuning 1 and monitoring 0 devices" or nice != "-3":
            raise Failed(f"{status}; nice {nice}", self.log())
        return f"{status}; nice {nice}"

    def start(self):
        self.call("systemctl", "enable", "--now", self.AGENT)
        self.sets_something()
        if not (self.is_active(self.APPLIER) and self.is_active(self.AGENT)):
            raise Failed("agent or applier is not active", self.log())
        return f"{len(differences(self.before, settings(self.DISK)))} attributes are set"

    def stop(self):
        self.sets_something()
        self.call("systemctl", "stop", self.AGENT)
        self.as_before("stopped")
        return "as before; " + self.call("seekwise-agent", "restore")

    def kill(self):
        """The applier restores at once, and systemd starts the agent again."""
        self.sets_something()
        killed = self.property(self.AGENT, "MainPID")
        self.call("systemctl", "kill", "--signal=KILL", self.AGENT)
        until("all is as before", lambda: not differences(self.before, settings(self.DISK)), 10, self.log)
        until("it runs again", lambda: self.is_active(self.AGENT) and self.property(self.AGENT, "MainPID") not in ("0", killed), output=self.log)
        return "as before, and started again"

    def upgrade(self):
        """The package's scripts restart both with the new programs; an end restores the settings from before the upgrade."""
        self.sets_something()
        earlier = [self.property(unit, "MainPID") for unit in (self.AGENT, self.APPLIER)]
        self.call("dpkg", "--no-triggers", "--force-unsafe-io", "--install", self.package)
        until("both run again", lambda: all(self.is_active(unit) for unit in (self.AGENT, self.APPLIER)), output=self.log)
        same = set(earlier) & {self.property(unit, "MainPID") for unit in (self.AGENT, self.APPLIER)}
        if same:
            raise Failed(f"processes {same} are those from before the upgrade", self.log())
        self.sets_something()
        self.call("systemctl", "stop", self.AGENT)
        self.as_before("upgraded and stopped")
        return "both restarted; as before after the end"

    def reboot(self):
        """The kernel's defaults are active, the journal of the earlier boot is dropped, and the agent tunes as after any start."""
        left = [file.name for file in self.JOURNAL.glob("*.journal")]
        attributes = dict(line.split(":", 1) for line in Path("/etc/at-boot").read_text().splitlines() if ":" in line)
        wrong = [f"{name} is {active(now)}" for name, now in ((name, attributes.get(f"/sys/block/{self.DISK}/queue/{name}")) for name in self.before)
                 if now is not None and now.strip() != self.before[name]]
        if wrong or len(attributes) < 10:
            raise Failed(f"the boot begins with {'; '.join(wrong) or 'no attributes'}")
        until("the agent was started", lambda: self.is_active(self.AGENT), output=self.log)
        self.sets_something()
        log = self.log()
        if "of an earlier boot, forgotten" not in log:
            raise Failed(f"it does not say that the journal is of an earlier boot; there were {left}", log)
        if "damaged" in log or "stood down" in self.call("seekwise-agent", "status"):
            raise Failed("the earlier boot confuses it", f"{self.call('seekwise-agent', 'status')}\n{log}")
        self.call("systemctl", "stop", self.AGENT)
        self.as_before("stopped after the reboot")
        return next(line for line in log.splitlines() if "of an earlier boot" in line).split(": ", 1)[-1]

    def remove(self):
        self.sets_something()
        self.call("dpkg", "--no-triggers", "--force-unsafe-io", "--remove", "seekwise")
        self.as_before("removed")
        return "as before"
