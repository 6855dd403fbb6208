"""What checks in a virtual machine share: reading the kernel's attributes, and lines of results."""
import re, threading, time
from pathlib import Path


class Failed(Exception):
    """A check has failed: why, and the output of the program."""

    def __init__(self, why, output=""):
        super().__init__(why)
        self.output = output


def read(path):
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def until(what, holds, seconds=60, output=lambda: ""):
    begin = time.monotonic()
    while not holds():
        if time.monotonic() - begin > seconds:
            raise Failed(f"waited {seconds} s in vain: {what}", output())
        time.sleep(0.2)


def settings(device):
    """All attributes of a queue and of its scheduler."""
    queue = Path("/sys/block", device, "queue")
    files = [file for folder in (queue, queue / "iosched") if folder.is_dir() for file in folder.iterdir() if file.is_file()]
    return {str(file.relative_to(queue)): read(file) for file in sorted(files)}


def active(value):
    """The scheduler in brackets, or the value itself."""
    found = re.search(r"\[([^]]+)\]", value or "")
    return found[1] if found else value


def differences(before, now):
    names = sorted(before.keys() | now.keys())
    return [f"{name} is {active(now.get(name))} and was {active(before.get(name))}" for name in names if before.get(name) != now.get(name)]


class Reporter:
    def __init__(self, kernel):
        self.kernel, self.port, self.lock = kernel, open("/dev/ttyS1", "w"), threading.Lock()

    def say(self, check, device, status, detail, output=""):
        detail = " ".join(str(detail).split())
        # On the console, for a look at what takes its time.
        print(f"{time.monotonic():.0f} s: {check} {device}", flush=True)
        with self.lock:
            self.port.write("\t".join((check, self.kernel, device, status, detail)) + "\n")
            self.port.writelines(f"    {line}\n" for line in output.replace("\t", " ").splitlines())
            self.port.flush()

    def check(self, name, device, body):
        """Makes a check, whose body returns a detail or raises Failed."""
        try:
            self.say(name, device, "passed", body())
        except Failed as failed:
            self.say(name, device, "failed", failed, failed.output)
        except Exception as error:  # A check's own fault must not hide the other checks.
            self.say(name, device, "failed", f"{type(error).__name__}: {error}")

    def end_loads(self):
        pass
