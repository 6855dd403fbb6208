"""Simulation, comparison, advice, forecasts, disks, tenants and models."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pyarrow as pa
import pytest

import seekwise as sw

JOB = "[global]\nrandrepeat=0\nrw=randread\nsize=256m\nruntime=1\ntime_based\ndirect=1\n[a]\niodepth=4\nioengine=libaio\n[b]\nrw=read\nbs=64k\n"


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "two.fio"
    path.write_text(JOB)
    return path


def program(*arguments: str) -> str:
    path = os.environ.get("SEEKWISE_PROGRAM") or shutil.which("seekwise")
    if path is None:
        pytest.skip("there is no program seekwise (SEEKWISE_PROGRAM)")
    # pytest sets COLUMNS, which determines the program's line width.
    surroundings = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    return subprocess.run([path, *arguments], check=True, capture_output=True, text=True, env=surroundings).stdout


def test_a_run_is_that_of_the_program_byte_for_byte(file):
    options = ["--disk", "nvme-tlc", "--scheduler", "kyber:read_lat_nsec=1000000"]
    ours = sw.simulate(sw.read_trace(file), disk="nvme-tlc", scheduler="kyber:read_lat_nsec=1000000").to_dict()
    assert ours == json.loads(program("simulate", str(file), *options, "--json"))


def test_figures_are_attributes_and_items(trace):
    result = sw.simulate(trace, disk="sata7200")
    assert result.figures.response.p99_ms == result.figures["response"]["p99_ms"] > 1
    assert result.figures["flash"] is None and "iops" in result.figures
    with pytest.raises(AttributeError, match="there is no figure 'respons'"):
        result.figures.respons
    assert repr(result).startswith("<seekwise.Result: mq-deadline on sata7200: ")


def test_every_request_can_be_kept_and_is_a_trace_again(trace):
    result = sw.simulate(trace, disk="sata7200", requests=True)
    requests = pa.table(result.requests)
    assert requests.num_rows == len(trace) and requests["response_ns"].null_count == 0
    mean_ms = sum(requests["response_ns"].to_pylist()) / len(trace) / 1e6
    assert mean_ms == pytest.approx(result.figures.response.mean_ms, rel=1e-3)
    assert len(sw.Trace.from_arrow(result.requests)) == len(trace)
    assert sw.simulate(trace, disk="sata7200").requests is None


def test_the_same_seed_gives_the_same_and_another_one_other_draws(job):
    one = sw.simulate(job, seed=5).to_dict()
    assert one == sw.simulate(job, seed=5, threads=2).to_dict()
    assert one["figures"] != sw.simulate(job, seed=6).to_dict()["figures"]


def test_a_comparison_is_one_long_table(job):
    table = sw.compare(job, disk="sata7200", schedulers=["none", "bfq"], host={"read_ahead_kb": [128, 1024]}, seeds=range(2))
    rows = table.to_pylist()
    assert table.columns == ["disk", "scheduler", "read_ahead_kb", "seed", "figure", "value"]
    cases = {(row["scheduler"], row["read_ahead_kb"], row["seed"]) for row in rows}
    assert cases == {(name, kb, seed) for name in ("none", "bfq") for kb in (128, 1024) for seed in (0, 1)}
    assert len(rows) == len(cases) * len({row["figure"] for row in rows})
    one = sw.simulate(job, disk="sata7200", scheduler="bfq", host={"read_ahead_kb": 1024}, seed=1)
    value = [row["value"] for row in rows if (row["scheduler"], row["read_ahead_kb"], row["seed"], row["figure"]) == ("bfq", 1024, 1, "response.mean_ms")]
    assert value == [one.figures.response.mean_ms]


def test_one_word_is_not_taken_for_its_letters(trace):
    assert {row["scheduler"] for row in sw.compare(trace, schedulers="bfq").to_pylist()} == {"bfq"}


def test_a_trace_is_compared_on_several_disks_and_has_the_same_rows_for_every_seed(trace):
    rows = sw.compare(trace, disk=["sata7200", "nvme-tlc"], schedulers=["none"], seeds=[3, 4]).to_pylist()
    assert {row["disk"] for row in rows} == {"sata7200", "nvme-tlc"}
    of = lambda seed: [(row["disk"], row["figure"], row["value"]) for row in rows if row["seed"] == seed]
    assert of(3) == of(4)


@pytest.mark.parametrize(
    ("arguments", "key", "words"),
    [
        ({"scheduler": "bfk"}, "scheduler", "did you mean bfq"),
        ({"scheduler": "bfq:slice=1"}, "scheduler", "scheduler: bfq:slice=1: bfq has no tunable 'slice'"),
        ({"disk": "sata720"}, None, "did you mean sata7200"),
        ({"disk": 'kind = "ssd"\nspeed = 3\n'}, None, "the profile's text:"),
        ({"host": {"read_ahead_kb": 4096}}, "host", "it meets only nr_requests"),
        ({"scheduler": "bqf"}, "scheduler", "did you mean bfq"),
        ({"disk": "sata"}, "disk", "did you mean sata7200"),
        ({"host": {"nr_request": 3}}, "host", "did you mean nr_requests"),
        ({"speed": 0}, "speed", "should be a number from"),
        ({"fit": "loose"}, "fit", "exact or compact"),
        ({"seed": -1}, "seed", "-1 should be a whole number from 0"),
        ({"threads": 0}, "threads", "0 should be from 1 to 1024"),
        ({"threads": -1}, "threads", "-1 should be"),
        ({"speed": float("nan")}, "speed", "should be a number from"),
        ({"queue_depth": 5000}, "queue_depth", "from 1 to 1024"),
        ({"queue_policy": "best"}, "queue_policy", "fifo, sstf or sptf"),
        ({"controller": "seekwize"}, "controller", "did you mean seekwise"),
        ({"preference": (9, 9, 9)}, "preference", ""),
        ({"tenants": "[tenant.a]\nshare = 'much'\n"}, "tenants", ""),
        ({"candidates": ["bfq"]}, "candidates", "is for controllers"),
    ],
)
def test_wrong_arguments_are_refused_by_their_python_names(trace, arguments, key, words):
    with pytest.raises(sw.InvalidInputError) as raised:
        sw.simulate(trace, **arguments)
    assert words in str(raised.value) and "--" not in str(raised.value), raised.value
    assert key is None or raised.value.key == key


def test_a_load_that_is_not_there_is_named(tmp_path):
    with pytest.raises(sw.InvalidInputError, match="neither a file nor a workload"):
        sw.simulate(tmp_path / "none")
    with pytest.raises(sw.InvalidInputError, match="did you mean recipes/etcd") as raised:
        sw.simulate("recipes/etc")
    assert raised.value.key == "load"


def test_an_error_of_a_comparison_names_its_argument(trace):
    for arguments, key in [
        ({"disk": ["sata7200", "sata"]}, "disk"), ({"schedulers": ["none", "bqf"]}, "schedulers"), ({"controllers": ["seekwize"]}, "controllers"),
    ]:
        with pytest.raises(sw.InvalidInputError, match="did you mean") as raised:
            sw.compare(trace, **arguments)
        assert raised.value.key == key


def test_each_seed_is_another_run_in_spite_of_randrepeat(tmp_path):
    job = tmp_path / "repeated.fio"
    job.write_text("[a]\nrw=randread\nbs=4k\nsize=64m\ndirect=1\nruntime=1\ntime_based=1\nrandrepeat=1\n")
    means = [sw.simulate(job, seed=seed).figures.response.mean_ms for seed in (1, 2, 3, 1)]
    assert len(set(means)) == 3 and means[0] == means[3]


def test_disks_have_profiles_that_can_be_changed_and_used(trace):
    names = {disk["name"] for disk in sw.disks()}
    assert {"sata7200", "nvme-tlc"} <= names
    profile = sw.disk("sata7200")["profile"]
    changed = sw.simulate(trace, disk=profile.replace('name = "sata7200"', 'name = "mine"'))
    assert changed.disk == "mine" and changed.figures.to_dict() == sw.simulate(trace, disk="sata7200").figures.to_dict()
    assert sw.disk("raid5:disk=atlas10k,disks=5")["disks"] == 5


def test_lists_name_schedulers_controllers_tunables_and_workloads():
    assert {"none", "mq-deadline", "kyber", "bfq"} <= {one["name"] for one in sw.schedulers() if one["is_linux"]}
    assert "seekwise" in {one["name"] for one in sw.controllers()}
    assert "read_ahead_kb" in {one["name"] for one in sw.host_tunables()}
    assert any(one["name"] == "recipes/etcd" and "[" in one["job"] for one in sw.workloads())


def test_a_controller_decides_and_says_why(job):
    result = sw.simulate(job, controller="rotate:window_ms=300", candidates=["kernel"], disk="sata7200")
    assert result.scheduler == "rotate:window_ms=300" and result.decisions[1]["why"]


def test_tenants_get_what_their_contract_says(job):
    contract = '[[tenant]]\nname = "first"\njobs = ["a"]\nweight = 3\n[[tenant]]\nname = "second"\njobs = ["b"]\n'
    result = sw.simulate(job, tenants=contract, scheduler="fairio")
    assert [tenant["name"] for tenant in result.tenants] == ["first", "second"]


def test_advice_is_the_program_s_text_and_rule(job):
    advice = sw.advise(job, disk="sata7200", candidates=["kernel"])
    assert str(advice) == program("advise", str(job), "--disk", "sata7200", "--candidates", "kernel")
    assert advice.to_udev() == program("advise", str(job), "--disk", "sata7200", "--candidates", "kernel", "--as", "udev")
    assert advice.setting == advice.to_dict()["verdict"]["setting"]


def test_an_aim_is_one_bound_for_one_stream(job):
    aim = sw.Aim(stream="a", kind="read", p99_ms=10)
    assert str(aim) == "a:read:p99=10ms" and str(sw.Aim("a", throughput_mb_s=1.5)) == "a:throughput=1.5MB/s"
    advice = sw.advise(job, disk="sata7200", aim=aim, candidates=["none", "bfq"])
    assert [one["aim"] for one in advice.to_dict()["aims"]] == ["a:read:p99=10ms"]
    with pytest.raises(sw.InvalidInputError, match="has 2 bounds; give one"):
        sw.advise(job, aim=sw.Aim("a", p99_ms=1, mean_ms=1))
    with pytest.raises(sw.InvalidInputError, match="there is no stream 'c'; there are a, b"):
        sw.advise(job, disk="sata7200", aim=sw.Aim("c", p99_ms=1), candidates=["none"])


def test_a_disk_is_fitted_to_response_times_and_forecasts_follow(trace):
    recorded = sw.Trace.from_arrow(sw.simulate(trace, disk="sata7200", scheduler="none", requests=True).requests)
    fitted = sw.fit_disk(recorded)
    assert any(finding["number"] for finding in fitted.findings) and fitted.judged["accesses"] > 500
    assert sw.simulate(trace, disk=fitted.profile).figures.response.mean_ms > 1
    with pytest.raises(sw.InvalidInputError, match="response times are needed"):
        sw.fit_disk(trace)


def test_the_twin_forecasts_candidates(job):
    predictions = sw.forecast(job, disk="sata7200", candidates=["kernel"])
    assert {"setting", "gain_percent", "error_percent"} <= predictions[0].keys()


def test_a_device_is_learned_and_simulated(trace, tmp_path):
    model = sw.learn_device("sata7200", requests=500)
    model.write(tmp_path / "model.json")
    assert model.about["leaves"] > 1
    assert sw.simulate(trace, disk=tmp_path / "model.json").figures.response.mean_ms > 0


def test_a_knowledge_base_is_read(job, tmp_path):
    path = tmp_path / "knowledge.db"
    sw.simulate(job, disk="sata7200", controller="rotate:window_ms=300", knowledge_base=path)
    base = sw.KnowledgeBase(path)
    assert base.summary()["windows"] == len(base.windows()) > 1
    assert len(base.decisions(device="sata7200")) > 1 and len(base.decisions(device="other")) == 0
    with pytest.raises(sw.SeekwiseError):
        sw.KnowledgeBase(tmp_path / "none.db")
