#!/bin/bash
# Records traces/mixed.parquet again: real programs on a real ext4, on a loop device, watched by record-disk.sh.
#
#   record.sh OUT.tracefs [SECONDS] [FOLDER]
#
# OUT.tracefs  the kernel's text; `seekwise trace convert OUT.tracefs mixed.parquet` makes it small
# SECONDS      how long to record (default 1200)
# FOLDER       where the loop device's file goes (default /var/tmp; about 10 GB are needed there)
#
#   FOLDER/…/disk (sparse, direct I/O)  <-  /dev/loopN  <-  ext4  <-  the programs, in a memory cgroup of 400 MiB
#                                               ^
#                                        record-disk.sh watches here
#
# The programs: PostgreSQL under pgbench, SQLite, a compile of binutils, a film being played, a camera being
# recorded, a copy, a table scan, a backup. Needs root, apt and a cgroup memory controller. Everything it makes
# is removed when it ends, Ctrl-C included; the Debian packages it installs stay.
set -euo pipefail
export LC_ALL=C

fail() { echo "record.sh: $*" >&2; exit 1; }
say() { echo "record.sh: $*" >&2; }

(( $# >= 1 && $# <= 3 )) || { sed -n '2,8p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2; }
out=$1 seconds=${2:-1200} folder=${3:-/var/tmp}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || fail "SECONDS is '$seconds': give a whole number of at least 1"
[[ -d $folder ]] || fail "$folder is not a folder"
[[ -d $(dirname "$out") ]] || fail "$(dirname "$out") is not a folder"
(( EUID == 0 )) || fail "loop devices, mounts and tracepoints need root: run it with sudo"
(( $(df --output=avail -B1M "$folder" | tail -1) > 12000 )) || fail "$folder has less than 12 GB free"
here=$(cd "$(dirname "$0")" && pwd)
out=$(realpath "$out")

# ---- what it needs ------------------------------------------------------------------------------------------------
command -v apt-get >/dev/null || fail "needs Debian's apt for PostgreSQL, SQLite, pv, gcc and the source to compile"
packages=(postgresql postgresql-contrib sqlite3 pv gcc g++ make e2fsprogs mount xz-utils util-linux)
missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
(( ${#missing[@]} == 0 )) || { say "installing ${missing[*]}"; apt-get install -y --no-install-recommends "${missing[@]}" >&2; }
pg_bin=$(find /usr/lib/postgresql -maxdepth 2 -name bin | sort -V | tail -1)
[[ -x $pg_bin/initdb && -x $pg_bin/pgbench ]] || fail "no initdb and pgbench under /usr/lib/postgresql"

# ---- what it makes, and how that goes away ------------------------------------------------------------------------
work= loop= mounted= cgroup= recorder=
cleanup() {
    trap '' INT TERM
    # A background job hears no Ctrl-C: it is told, and removes its own traces.
    [[ -z $recorder ]] || { kill -TERM "$recorder" 2>/dev/null || true; wait "$recorder" || true; }
    # A killed PostgreSQL leaves shared memory behind; stopped at once it does not.
    if [[ -n $mounted && -e $mounted/database/postmaster.pid ]]; then
        runuser -u postgres -- "$pg_bin/pg_ctl" -D "$mounted/database" -s -m immediate stop || true
    fi
    cd /
    if [[ -n $cgroup ]]; then
        # Only what this script started is in its cgroup.
        for _ in {1..50}; do
            mapfile -t pids <"$cgroup/cgroup.procs"
            (( ${#pids[@]} )) || break
            kill -KILL "${pids[@]}" 2>/dev/null || true
            sleep 0.1
        done
    fi
    [[ -z $cgroup ]] || rmdir "$cgroup" || say "could not remove $cgroup"
    [[ -z $mounted ]] || umount "$mounted" || say "could not unmount $mounted"
    [[ -z $loop ]] || losetup -d "$loop" || say "could not free $loop"
    [[ -z $work ]] || rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

work=$(mktemp -d "$folder/seekwise-record.XXXXXX")
chmod 755 "$work"

# Without a limit the page cache would swallow the working set, and hardly anything would reach the disk.
limit=$(( 400 << 20 ))
if [[ -d /sys/fs/cgroup/memory && -e /sys/fs/cgroup/memory/memory.limit_in_bytes ]]; then
    mkdir "/sys/fs/cgroup/memory/seekwise-$$"
    cgroup=/sys/fs/cgroup/memory/seekwise-$$
    echo $limit >"$cgroup/memory.limit_in_bytes"
elif grep -qw memory /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null; then
    mkdir "/sys/fs/cgroup/seekwise-$$"
    cgroup=/sys/fs/cgroup/seekwise-$$
    echo $limit >"$cgroup/memory.max"
else
    fail "no cgroup memory controller: neither v1 at /sys/fs/cgroup/memory nor 'memory' in /sys/fs/cgroup/cgroup.subtree_control"
fi
# Runs a command or function, and all it starts, in the cgroup.
inside() { ( echo "$BASHPID" >"$cgroup/cgroup.procs"; "$@" ); }
as_postgres() { inside runuser -u postgres -- "$@"; }

# As large as the smallest disks of today; sparse. ext4 spreads the folders over all of it.
truncate -s 250000000000 "$work/disk"
loop=$(losetup --find --show --direct-io=on "$work/disk")
mkfs.ext4 -q -E lazy_itable_init=1,nodiscard "$loop"
mkdir "$work/mnt"
# noinit_itable: no initialising of inode tables in the background while we record.
mount -o noinit_itable "$loop" "$work/mnt"
mounted=$work/mnt
cd "$mounted"
# Cut the queue to a hard disk's manner; what is recorded comes before it, but read-ahead and write-back look here.
queue=/sys/block/$(basename "$loop")/queue
echo 1 >"$queue/rotational"
echo mq-deadline >"$queue/scheduler" || say "no mq-deadline here; the scheduler stays $(cat "$queue/scheduler")"
echo 128 >"$queue/read_ahead_kb"

# ---- the data -----------------------------------------------------------------------------------------------------
say "preparing data on $loop"
mkdir database orders source films camera backup
chown postgres database
( cd "$work" && apt-get download -q -o APT::Sandbox::User=root binutils-source >/dev/null && dpkg -x binutils-source_*.deb binutils )
tar -xJf "$work"/binutils/usr/src/binutils/binutils-*.tar.xz -C source --strip-components=1
rm -rf "$work/binutils"
as_postgres "$pg_bin/initdb" -D database -A trust --locale=C -E UTF8 >/dev/null
cat >>database/postgresql.conf <<CONF
listen_addresses = ''
unix_socket_directories = '$mounted/database'
shared_buffers = 24MB
checkpoint_timeout = 60s
max_wal_size = 256MB
autovacuum_naptime = 20s
CONF
as_postgres "$pg_bin/pg_ctl" -D database -s -w -l database/log start
as_postgres "$pg_bin/createdb" -h "$mounted/database" bench
as_postgres "$pg_bin/pgbench" -h "$mounted/database" -q -i -s 50 bench 2>/dev/null
inside sqlite3 orders/orders.db <<'SQL'
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, total REAL, note TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500000)
INSERT INTO orders SELECT i, abs(random()) % 600000, abs(random()) % 100000 / 100.0, hex(randomblob(50)) FROM n;
CREATE INDEX by_customer ON orders (customer);
SQL
inside dd if=/dev/urandom of=films/one bs=1M count=$(( seconds * 3 + 100 )) status=none
inside dd if=/dev/urandom of=films/two bs=1M count=400 status=none
as_postgres "$pg_bin/psql" -h "$mounted/database" -q -c CHECKPOINT bench
sync
echo 3 >/proc/sys/vm/drop_caches

# ---- the programs -------------------------------------------------------------------------------------------------
database() { runuser -u postgres -- "$pg_bin/pgbench" -h "$mounted/database" -n -c 4 -R 8 -T "$seconds" bench; }
# A shop: three questions a second for one customer's orders, and a new total now and then.
shop() {
    while :; do
        for _ in 1 2 3; do
            echo "SELECT count(*), sum(total) FROM orders WHERE customer = abs(random()) % 600000;"
            sleep 0.33
        done
        echo "UPDATE orders SET total = total + 1 WHERE id = 1 + abs(random()) % 2500000;"
    done | sqlite3 orders/orders.db
}
# ext4 copies a file's pages into a new file: read and write side by side.
copy() { sleep $(( seconds / 6 )); cp films/two films/copy; }
report() { sleep $(( seconds / 2 )); sqlite3 orders/orders.db "SELECT avg(total), max(length(note)) FROM orders;"; }
compile() {
    mkdir source/build
    cd source/build
    nice sh -c '../configure -q --disable-nls --disable-gdb --disable-gprofng MAKEINFO=true && make -s -j2 MAKEINFO=true'
}
film() { pv -q -L 3M films/one; }
camera() { pv -q -L 1500k /dev/urandom; }
backup() { sleep $(( seconds * 2 / 3 )); tar -cf - -C source bfd gas ld | pv -q -L 400k; }

say "recording $loop for $seconds s"
"$here/record-disk.sh" "$loop" "$seconds" "$out" &
recorder=$!
# Disowned: the shell shall not report each one as killed at the end.
start() { ( echo "$BASHPID" >"$cgroup/cgroup.procs"; "$@" ) & disown $!; }
start database >"$work/database.log" 2>&1
start shop >/dev/null 2>"$work/shop.log"
start compile >"$work/compile.log" 2>&1
start film >/dev/null
start camera >camera/today
start copy
start report >/dev/null
start backup >backup/source.tar 2>/dev/null
wait "$recorder" || { recorder=; fail "the recording failed"; }
recorder=
grep -E 'tps|latency average' "$work/database.log" >&2 || true
say "recorded $(wc -l <"$out") events in $out: make it small with 'seekwise trace convert $(basename "$out") mixed.parquet'"
