"""Bars of research/bars/scale about many machines. Needs PostgreSQL 15, cargo, and the programs."""
import json, re, sys
from bars import ROOT, call, say

KILLS = "nothing_is_lost_and_nothing_there_twice_over_200_kills_of_either_side"
AGENTS = "a_thousand_agents_deliver_to_one_server"
PULL = "a_pull_from_three_million_rows_is_fast"


def long_test(name):
    """Runs a long test of the knowledge base; returns its output and whether it passed."""
    command = ["cargo", "test", "--locked", "--workspace", "--test", "knowledge", name, "--", "--ignored", "--nocapture"]
    done = call(*command, cwd=ROOT)
    return done.stdout, done.returncode == 0 and "1 passed" in done.stdout


def fleet(given, folder):
    """Bars about crashes of agents and server, a thousand agents, and the gains of a fleet, honest or not, on random loads and devices."""
    text, held = long_test(KILLS)
    if "skipped" in text:
        sys.exit(f"needs PostgreSQL: {text}")
    counts = re.search(r"(\d+) kills, (\d+) outcomes recorded, (\d+) on the server", text)
    value = f"{counts[1]} kills, {counts[2]} recorded, {counts[3]} there" if counts else "the test failed"
    say("kills of agent and server", value, "nothing lost, nothing twice", held)
    text, held = long_test(AGENTS)
    rate, pull = re.search(r"per second: (\d+)", text), re.search(r"seconds to pull (\d+) outcomes: ([0-9.]+)", text)
    say("1,000 agents on one server", f"{rate[1]} outcomes/s" if rate else "the test failed", "all delivered", held)
    say("  pulling what they measured", f"{pull[1]} rows in {pull[2]} s" if pull else "-", "", None)
    text, held = long_test(PULL)
    pull = re.search(r"seconds to pull (\d+) of (\d+) rows: ([0-9.]+)", text)
    say("pulling from millions of rows", f"{pull[1]} of {pull[2]} rows in {pull[3]} s" if pull else "the test failed", "at most 2 s", held)
    done = call(str(given.programs / "seekwise-lab"), "fleet", "--seeds", str(given.seeds), "--json")
    if done.returncode:
        sys.exit(done.stderr)
    report = json.loads(done.stdout)
    share, of_changes = report["starts_with_best_percent"], report["starts_with_best_of_changes_percent"]
    say(f"starts with the best known of {len(report['cases'])} loads", f"{share:.0f}%", "at least 80%", share >= 80)
    say("  where it is better than the one found", f"{of_changes:.0f}%" if of_changes is not None else "-", "", None)
    mean = lambda name: f"{report[name]['mean_percent']:+.2f}% ({report[name]['low_percent']:+.2f} to {report[name]['high_percent']:+.2f})"
    say("gain over no fleet", mean("gain"), "", None)
    say("  of the best known setting, fixed from the start", mean("fixed"), "", None)
    for name, words in [("hostile", "that is hostile"), ("sly", "that lies about one setting"), ("unrelated", "that is unrelated")]:
        say(f"gain by a fleet {words}", mean(name), "at least -1%", report[name]["mean_percent"] >= -1)
