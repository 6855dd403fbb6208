#!/bin/sh
# Gathers again the experience that comes with the program, on the world that is learned from (worlds.toml) and nothing else: loads of
# every family on every device, each under every scheduler. Takes a few minutes on two cores. Build again afterwards: the file is part
# of the program. A test fails when the file is no longer what this gathers.
#
#   research/research/experience.sh [path of the program]
set -eu
cd "$(dirname "$0")/../.."
"${1:-target/release/seekwise-lab}" learn gather --world 3 --seed 7 --seconds 15 --output crates/experiment/src/experience.json.zst
