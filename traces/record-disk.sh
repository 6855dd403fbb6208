#!/bin/bash
# Records what is asked of one block device, with the kernel's block tracepoints, as text that
# `seekwise trace info` and `seekwise trace convert` read. It only watches: nothing is set on the device.
#
#   record-disk.sh DEVICE SECONDS OUT
#   record-disk.sh /dev/sda 300 sda.tracefs
#
# Four events are kept: who asked (block_bio_queue), when the scheduler got it and with which priority
# (block_rq_insert), when the device got it (block_rq_issue), when it was done (block_rq_complete).
# Write OUT to another disk than DEVICE: what is written to DEVICE is itself recorded.
set -euo pipefail
export LC_ALL=C

fail() { echo "record-disk.sh: $*" >&2; exit 1; }

(( $# == 3 )) || { sed -n '2,7p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2; }
device=$1 seconds=$2 out=$3
[[ $seconds =~ ^[1-9][0-9]*$ ]] || fail "SECONDS is '$seconds': give a whole number of at least 1"
[[ -b $device ]] || fail "$device is not a block device: see lsblk"
(( EUID == 0 )) || fail "the kernel lets only root watch block devices: run it with sudo"
[[ -d $(dirname "$out") ]] || fail "$(dirname "$out") is not a folder"

mounted= instance= reader= sleeper= partial=
cleanup() {
    trap '' INT TERM
    [[ -z $sleeper ]] || kill "$sleeper" 2>/dev/null || true
    if [[ -n $instance ]]; then
        echo 0 >"$instance/tracing_on" || true
        # Reading trace_pipe keeps the instance busy: the reader goes first.
        [[ -z $reader ]] || { kill "$reader" 2>/dev/null || true; wait "$reader" 2>/dev/null || true; }
        rmdir "$instance" || echo "record-disk.sh: could not remove $instance" >&2
    fi
    [[ -z $mounted ]] || { umount "$mounted" && rmdir "$mounted"; }
    [[ -z $partial ]] || rm -f "$partial"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

tracefs=$(awk '$3 == "tracefs" { print $2; exit }' /proc/mounts)
if [[ -z $tracefs ]]; then
    tracefs=$(mktemp -d)
    mount -t tracefs tracefs "$tracefs" || { rmdir "$tracefs"; fail "cannot mount tracefs: this kernel has none, or forbids it"; }
    mounted=$tracefs
fi
mkdir "$tracefs/instances/seekwise-$$"
instance=$tracefs/instances/seekwise-$$

# The kernel's own device number: 12 bits of major, 20 of minor. A partition's requests carry the whole disk's number.
sys=/sys/dev/block/$(stat -c '%Hr:%Lr' "$device")
[[ ! -e $sys/partition ]] || fail "$device is a partition: record the whole disk $(basename "$(dirname "$(readlink -f "$sys")")")"
IFS=: read -r major minor <"$sys/dev"
for event in block_bio_queue block_rq_insert block_rq_issue block_rq_complete; do
    [[ -d $instance/events/block/$event ]] || fail "this kernel has no tracepoint block:$event"
    echo "dev == $(( major << 20 | minor ))" >"$instance/events/block/$event/filter"
    echo 1 >"$instance/events/block/$event/enable"
done
# One clock for all processors: the requests are put in order by it.
echo mono >"$instance/trace_clock"
echo 16384 >"$instance/buffer_size_kb"
echo 0 >"$instance/tracing_on"
echo >"$instance/trace"
echo 1 >"$instance/tracing_on"

partial=$(mktemp "$out.XXXXXX")
cat "$instance/trace_pipe" >"$partial" &
reader=$!
# In the background, so that Ctrl-C is heard at once.
sleep "$seconds" &
sleeper=$!
wait "$sleeper"
sleeper=
echo 0 >"$instance/tracing_on"
# With tracing off the pipe ends once it is empty, unless nothing was ever in it.
for _ in {1..100}; do
    kill -0 "$reader" 2>/dev/null || break
    sleep 0.1
done
lost=$(cat "$instance"/per_cpu/cpu*/stats | awk '/^(overrun|dropped events):/ { n += $NF } END { print n + 0 }')
(( lost == 0 )) || fail "the kernel had to drop $lost events: the disk of $out is too slow, or too much is asked of $device"
[[ -s $partial ]] || fail "nothing was asked of $device in $seconds s"
chmod "$(printf '%o' $(( 0666 & ~$(umask) )))" "$partial"
mv "$partial" "$out"
partial=
