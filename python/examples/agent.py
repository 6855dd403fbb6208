"""Train an agent with stable-baselines3 to choose a disk's setting, and put it beside the constants and Seekwise's own controller.

    pip install stable-baselines3 'seekwise[gymnasium]'
    python agent.py [--steps N] [--load JOB] [--disk DISK] [--seeds N]

Prints a table: by how much the mean merit of a run's windows is above that under mq-deadline with the same seed; 0.01 is one percent
better. The seeds are such that the agent was not trained on. The same steps and seeds give the same table.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import gymnasium

import seekwise as sw

#: Phase 1: three processes that each read a file sequentially. Phase 2: four random readers and a random writer.
JOB = """
[global]
size=1g
runtime=15
time_based
randrepeat=0
[in-order]
rw=read
bs=64k
numjobs=3
[random]
stonewall
rw=randread
direct=1
numjobs=4
[writer]
rw=randwrite
bs=16k
direct=1
ioengine=libaio
iodepth=16
"""
CANDIDATES = ["none", "mq-deadline", "kyber", "bfq"]
#: Number of seeds for training; the following seeds are for evaluation.
TRAINED_SEEDS = 100


def episode(env, seed, choose):
    """Mean reward of an episode in which `choose` selects the actions."""
    observation, _ = env.reset(seed=seed)
    rewards = []
    while True:
        observation, reward, terminated, truncated, _ = env.step(choose(observation))
        if terminated:
            return statistics.fmean(rewards)
        rewards.append(reward)
        if truncated:
            return statistics.fmean(rewards)


def controller(load, disk, seed):
    """Mean reward of Seekwise's controller, from the windows recorded in a knowledge base."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "knowledge.db"
        sw.simulate(load, disk=disk, seed=seed, controller="seekwise", candidates=CANDIDATES, knowledge_base=base)
        windows = sw.KnowledgeBase(base).windows().to_pylist()
    merits = [(one["merit"], one["to_s"] - one["from_s"]) for one in windows if one["merit"] is not None]
    first = merits[0][0]
    later = merits[1:]
    return sum((merit - first) * length for merit, length in later) / sum(length for _, length in later)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--steps", type=int, default=4096, help="windows that the agent is trained on")
    options.add_argument("--load", help="an fio job file, or the name of a workload [default: the one above]")
    options.add_argument("--disk", default="sata7200")
    options.add_argument("--seeds", type=int, default=5, help="runs that each is judged by")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "agent.fio"
        job.write_text(JOB)
        compare(given, given.load or job)


def compare(given, load):
    env = gymnasium.make("seekwise/Tune-v0", load=load, disk=given.disk, candidates=CANDIDATES)
    seeds = range(TRAINED_SEEDS + 1, TRAINED_SEEDS + 1 + given.seeds)
    print(f"{'':20} {'mean':>8} {'worst':>8} {'best':>8}")

    def show(name, rewards):
        gains = [reward - usual for reward, usual in zip(rewards, usually)]
        print(f"{name:20} {statistics.fmean(gains):+8.3f} {min(gains):+8.3f} {max(gains):+8.3f}", flush=True)

    constant = lambda number: [episode(env, seed, lambda _: number) for seed in seeds]
    usually = constant(CANDIDATES.index("mq-deadline"))
    for number, name in enumerate(CANDIDATES):
        show(name, constant(number))
    show("seekwise", [controller(load, given.disk, seed) for seed in seeds])
    try:
        from stable_baselines3 import PPO
        from stable_baselines3.common.env_util import make_vec_env
        from stable_baselines3.common.vec_env import VecNormalize
    except ImportError:
        print("stable-baselines3 is not installed: no agent is trained")
    else:
        train = VecNormalize(make_vec_env(lambda: env, n_envs=1, seed=1), clip_obs=5.0)
        agent = PPO("MlpPolicy", train, n_steps=256, batch_size=64, seed=1, device="cpu", verbose=0)
        agent.learn(given.steps)
        train.training = False
        choose = lambda observation: int(agent.predict(train.normalize_obs(observation), deterministic=True)[0])
        show(f"PPO, {given.steps} windows", [episode(env, seed, choose) for seed in seeds])
    env.close()


if __name__ == "__main__":
    main()
