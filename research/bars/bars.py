"""Helpers of the bar scripts: output lines, random loads and random disks."""
import re, subprocess, sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MISSED = []


def say(name, value, wanted, met, width=44):
    """Prints one line: name, value, target and whether it is met; met is None for a value without a target."""
    verdict = "" if met is None else "met" if met else "MISSED"
    print(f"{name:{width}} {str(value):>28}   {wanted:44} {verdict}".rstrip(), flush=True)
    if met is not None and not met:
        MISSED.append(name)


def end():
    """Prints the missed bars. Exits with code 1 if there are any."""
    print(f"missed: {', '.join(MISSED)}" if MISSED else "all met")
    sys.exit(1 if MISSED else 0)


def call(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, **more)


def drawn_load(draw):
    """A random job file without filename and runtime: two or three jobs with random direction, think time, fsync and use of the page cache."""
    lines = ["# Drawn"]
    for number in range(draw.choice([2, 3])):
        kind = draw.choice(["read", "randread", "randread", "write", "randwrite", "randrw"])
        block = draw.choice([4, 8, 16, 64, 128]) if "rand" in kind else draw.choice([64, 128, 256, 512])
        buffered = draw.random() < 0.3
        lines += [f"[job{number}]", f"rw={kind}", f"bs={block}k", "size=1g", f"offset={2 * number}g", f"numjobs={draw.choice([1, 1, 2])}"]
        if buffered or draw.random() < 0.3:
            lines += ["ioengine=psync", f"direct={int(not buffered)}"]
            if "write" in kind and draw.random() < 0.6:
                lines.append(f"{draw.choice(['fsync', 'fdatasync'])}={draw.choice([1, 1, 8])}")
        else:
            lines += ["ioengine=libaio", "direct=1", f"iodepth={draw.choice([1, 4, 16])}"]
        if draw.random() < 0.4:
            lines.append(f"thinktime={draw.choice([500, 2000, 10000])}us")
    return "\n".join(lines) + "\n"

def drawn_disk(draw, folder, number):
    """A random built-in profile with times varied by up to a third."""
    name = draw.choice(["sata7200", "atlas10k", "cheetah9LP", "cloud-volume", "sd-card"])
    text = call(str(ROOT / "target/debug/seekwise"), "disk", "show", name).stdout
    keys = r"^(rotation_rpm|read_us|program_us|overhead_us|overhead_ms|transfer_mb_s|mb_s) = ([0-9.]+)"
    change = lambda found: f"{found[1]} = {float(found[2]) * draw.uniform(0.75, 1.33):.2f}"
    path = Path(folder) / f"{name}-{number}.toml"
    path.write_text(re.sub(keys, change, text, flags=re.M))
    return path
