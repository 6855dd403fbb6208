#!/bin/sh
# Draws docs/page.png, the beginning of the page that the README's last command writes, with the program and Chromium.
#
#   docs/page.sh [path of the program]
set -eu
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${1:-target/release/seekwise}" compare traces/mixed.parquet --scheduler all --html "$folder/report.html" >/dev/null
chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update \
    --disable-sync --hide-scrollbars --user-data-dir="$folder/profile" --window-size=1280,1500 \
    --screenshot=docs/page.png "file://$folder/report.html" 2>/dev/null
