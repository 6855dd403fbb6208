#!/bin/sh
# Gathers the experience that comes with the program again: the paper's training workloads (Table 3) and 100 workloads drawn at
# random, on a disk with a queue of its own and without. Nothing that anything is judged by is among them. A few minutes on two
# cores. Afterwards build again: the file is part of the program.
#
#   papers/self-learning/experience.sh [path of the program]
set -eu
cd "$(dirname "$0")/../.."
seekwise=${1:-target/release/seekwise}
"$seekwise" learn gather \
    self-learning/concurrent-access self-learning/concurrent-reading self-learning/concurrent-writing self-learning/http-server \
    self-learning/multimedia-server self-learning/sequential-reading self-learning/sequential-writing self-learning/linux-compilation \
    --random 100 --seed 7 --disk sata7200 --disk sata7200@1 --seconds 15 \
    --output crates/laboratory/src/experience.json.zst
