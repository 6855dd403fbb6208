"""The gymnasium environment."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import pytest

import seekwise as sw

gymnasium = pytest.importorskip("gymnasium")
numpy = pytest.importorskip("numpy")

JOB = "[global]\nrandrepeat=0\nsize=512m\nruntime=4\ntime_based\n[reader]\nrw=read\nbs=64k\n[random]\nrw=randread\ndirect=1\n"


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "mixed.fio"
    path.write_text(JOB)
    return path


@pytest.mark.parametrize("order", ["import gymnasium, seekwise", "import seekwise, gymnasium"])
def test_the_environment_is_registered_whichever_package_comes_first(order):
    code = f"{order}; print('seekwise/Tune-v0' in gymnasium.registry)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


def make(job, **options):
    return gymnasium.make("seekwise/Tune-v0", load=job, disk="sata7200", **options)


def test_gymnasium_s_checker_passes_without_a_warning(job):
    from gymnasium.utils.env_checker import check_env

    env = make(job, window_ms=500)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Unbounded values are inherent to features.
        warnings.filterwarnings("ignore", message=".*(infinity|Box observation space).*")
        check_env(env.unwrapped, skip_render_check=True)
    env.close()


def episode(env, seed):
    observation, _ = env.reset(seed=seed)
    seen = [observation]
    rewards = []
    for step in range(100):
        observation, reward, terminated, truncated, _ = env.step(step % env.action_space.n)
        seen.append(observation)
        rewards.append(reward)
        if terminated or truncated:
            break
    return numpy.array(seen), rewards


def test_a_seed_gives_the_same_episode_and_another_seed_another_one(job):
    env = make(job)
    one, other = episode(env, 3), episode(env, 3)
    assert numpy.array_equal(one[0], other[0]) and one[1] == other[1] and len(one[1]) >= 3
    assert episode(env, 4)[1] != one[1]
    env.close()


def test_another_seed_is_another_episode_in_spite_of_randrepeat(tmp_path):
    job = tmp_path / "repeated.fio"
    job.write_text("[a]\nrw=randread\nbs=4k\nsize=64m\ndirect=1\nruntime=6\ntime_based=1\nrandrepeat=1\n")
    env = make(job)
    assert episode(env, 3)[1] != episode(env, 4)[1]
    env.close()


def test_observations_are_the_documented_features_and_the_reward_is_the_gain_in_merit(job):
    env = make(job, candidates=["none", "bfq"], initial="none")
    observation, info = env.reset(seed=1)
    features = env.unwrapped.features
    assert len(observation) == len(features) and observation[features.index("streams")] == 2
    assert info["setting"] == "none" and info["at_s"] == 1.0
    _, same, *_ = env.step(0)
    _, reward, _, _, info = env.step(1)
    assert info["setting"] == "bfq" and reward != same and abs(same) < 0.5
    env.close()


def test_windows_can_be_limited_and_settings_name_host_tunables(job):
    env = make(job, candidates=["none read_ahead_kb=1024", "bfq"], max_windows=2)
    env.reset(seed=1)
    assert env.step(0)[3] is False and env.step(0)[3] is True
    env.close()


def test_what_is_wrong_is_said(job, trace):
    with pytest.raises(sw.InvalidInputError, match="did you mean bfq"):
        make(job, candidates=["bfk"])
    with pytest.raises(sw.InvalidInputError, match="read_ahead_kb"):
        sw_env = __import__("seekwise._environment", fromlist=["Tune"]).Tune
        sw_env(trace, candidates=["none read_ahead_kb=1024"])
    with pytest.raises(sw.InvalidInputError, match="from 10 to 3600000"):
        make(job, window_ms=1)
    env = make(job).unwrapped
    with pytest.raises(sw.SeekwiseError, match="call reset"):
        env.step(0)
    env.reset(seed=1)
    with pytest.raises(sw.InvalidInputError, match="action: 9 should be from 0 to 3"):
        env.step(9)


def test_after_a_fork_the_child_is_told_and_can_begin_anew(job):
    env = make(job).unwrapped
    env.reset(seed=1)
    child = os.fork()
    if child == 0:
        try:
            try:
                env.step(0)
                code = 1
            except sw.SeekwiseError as error:
                code = 0 if "before the process forked" in str(error) else 2
            env.reset(seed=1)
            env.step(0)
            env.close()
        except BaseException:
            code = 3
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(env.step(0)[0]) == len(env.features)
    env.close()
