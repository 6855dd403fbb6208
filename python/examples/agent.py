"""Train an agent with stable-baselines3 to choose a disk's setting, and put it beside the constants and Seekwise's own controller.

    pip install stable-baselines3 'seekwise[gymnasium]'
    python agent.py [--steps N] [--load WORKLOAD] [--disk DISK] [--seeds N]

Prints a table: the mean of (merit of each window less that of the first) over whole runs with seeds that the agent was not trained
on; 0.01 is one percent better than mq-deadline. Same steps and seeds, same table.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import gymnasium

import seekwise as sw

CANDIDATES = ["none", "mq-deadline", "kyber", "bfq"]
#: The agent is trained on these and judged by those behind them.
TRAINED_SEEDS = 100


def episode(env, seed, choose):
    """The mean reward of a run in which `choose` picks each action."""
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
    """The same of Seekwise's controller, from the windows that it leaves in a knowledge base."""
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
    options.add_argument("--load", default="self-learning/mixed-1")
    options.add_argument("--disk", default="sata7200")
    options.add_argument("--seeds", type=int, default=5, help="runs that each is judged by")
    given = options.parse_args()
    env = gymnasium.make("seekwise/Tune-v0", load=given.load, disk=given.disk, candidates=CANDIDATES)
    seeds = range(TRAINED_SEEDS + 1, TRAINED_SEEDS + 1 + given.seeds)
    table = []
    for number, name in enumerate(CANDIDATES):
        table.append((name, [episode(env, seed, lambda _: number) for seed in seeds]))
    table.append(("seekwise", [controller(given.load, given.disk, seed) for seed in seeds]))
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
        table.append((f"PPO, {given.steps} windows", [episode(env, seed, choose) for seed in seeds]))
    print(f"{'':20} {'mean':>8} {'worst':>8} {'best':>8}")
    for name, rewards in table:
        print(f"{name:20} {statistics.fmean(rewards):8.3f} {min(rewards):8.3f} {max(rewards):8.3f}")
    env.close()


if __name__ == "__main__":
    main()
