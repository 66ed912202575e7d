# `rampart banks pools`, `test` and `watch` at the same time: tests reach the user pool and do not fill the kernel core,
# nothing comes online for them, and each report says what was not reached.
# memory: 2G
# kernel: 6.12

# in_zone KEY: a number of pages of the zone `Movable`, in MiB.
movable() {
  awk -v key="$1" '/^Node/ { zone = $4 } zone == "Movable" && $1 == key { print $NF / 256; exit }' /proc/zoneinfo | cut -d . -f 1
}

migrated() {
  awk '$1 == "pgmigrate_success" { print $2 }' /proc/vmstat
}

# number KEY: a number in the report.
number() {
  sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" /tmp/report | head -n 1
}

# metric NAME: its value.
metric() {
  printf 'GET /metrics HTTP/1.0\r\n\r\n' | nc 127.0.0.1 9437 | tr -d '\r' | awk -v name="$1" '$1 == name { printf "%d\n", $2 }'
}

ip link set lo up
rampart banks pools --apply --dwell 1h >/tmp/pools 2>&1 &
pools=$!
until grep -q '^pools ' /tmp/pools; do sleep 1; done
# A program comes and goes: it leaves a user pool, which stays online for longer than this takes.
dd if=/dev/zero of=/tmp/data bs=1M count=700 2>/dev/null
rm /tmp/data
gone=$(offline) had=$(core) user=$(movable managed) before=$(migrated)
echo "offline $gone blocks, kernel core $had blocks, user pool $user MiB"
check "there is a user pool ($user MiB)" test "$user" -ge 256

quick='--march {*(w0);*(r0)} --sequence sequential --retention 0s'
rampart test $quick --json >/tmp/report 2>/tmp/said
code=$?
cat /tmp/said /tmp/report
moved=$(($(migrated) - before))
cat /tmp/pools
grep -E '^(compact|pgmigrate)' /proc/vmstat
pool=$(grep -A 2 '"only_programs": true' /tmp/report | sed -n 's/.*"tested": \([0-9]*\).*/\1/p')
echo "test ended with $code, moved $moved pages; $((pool / 1048576)) MiB of the user pool tested"
check "the test passes" test "$code" = 0
check "it reaches at least 80 % of the user pool ($((pool / 1048576)) of $user MiB)" \
  test $((pool / 1048576 * 10)) -ge $((user * 8))
check "and moves little of it to the kernel core ($moved pages)" test "$moved" -lt 4096
check "no block came online for the test ($gone, then $(offline) offline)" test "$(offline)" -ge "$gone"
check "the kernel core is as large as before ($had, then $(core) blocks)" test "$(core)" -le "$had"
said=$(grep -A 1 'memory blocks that are offline' /tmp/report | sed -n 's/.*"frames": \([0-9]*\).*/\1/p')
check "the report says that offline blocks were not tested ($said frames)" test "$said" = $(($(offline) * 32768))

rampart test $quick >/tmp/report 2>&1
cat /tmp/report
check "so do people's reports, of the user pool" grep -qE '^user pool   [0-9.]+ (MiB|GiB) of [0-9.]+ (MiB|GiB) ' /tmp/report
check "and of the core" grep -qE '^kernel core [0-9.]+ (MiB|GiB) of [0-9.]+ (MiB|GiB) ' /tmp/report

rampart watch --lifetime 2m --march '*(w0);*(r0)' --sequence sequential --retention 0s --metrics 127.0.0.1:9437 >/tmp/report 2>&1 &
watch=$!
until rampart status | grep -q '^coverage'; do kill -0 $watch || break; done
sleep 20
rampart status >/tmp/status
grep -E '^(watching|coverage|offline|oldest)' /tmp/status
check "the daemon says what is offline" grep -qE '^offline     [0-9.]+ (MiB|GiB) in memory blocks' /tmp/status
check "its metrics have the user pool" test "$(metric 'rampart_pools_memory_bytes{node="0",pool="user"}')" = $(($(movable present) * 1048576))
check "what is offline" test "$(metric 'rampart_pools_memory_bytes{node="0",pool="offline"}')" = $(($(offline) * 134217728))
check "that pools are kept" test "$(metric rampart_pools_running)" = 1
check "and their moves" test "$(metric 'rampart_pools_moves_total{from="offline",to="user"}')" -ge 3
check "no block came online for the daemon ($gone, then $(offline) offline)" test "$(offline)" -ge "$gone"
check "the kernel core did not grow for it" test "$(core)" -le "$had"

rampart test $quick >/tmp/beside 2>&1
code=$?
cat /tmp/beside
check "a test beside the daemon passes" test "$code" = 0
check "and says how much of the user pool it reached" \
  grep -qE '^user pool   [0-9.]+ (MiB|GiB) of [0-9.]+ (MiB|GiB) ' /tmp/beside
check "no block came online for the two ($gone, then $(offline) offline)" test "$(offline)" -ge "$gone"
check "the kernel core did not grow for them" test "$(core)" -le "$had"
check "the daemon still runs" kill -0 $watch

kill -INT $pools
wait $pools
check "the pools end, and all blocks come back" sh -c "[ $? = 0 ] && [ $(offline) = 0 ]"
check "the metrics say so" test "$(metric rampart_pools_running)$(metric rampart_pools_failures_total)" = 0
# All memory is online again: a sweep begins, and reaches it.
reached() {
  rampart status | sed -n 's/^coverage    \([0-9.]*\) GiB of .*/\1/p' | awk '{ print int($1 * 10) }'
}
waited=0
until [ "$(reached)0" -ge 140 ] || [ $waited -ge 200 ]; do
  sleep 1
  waited=$((waited + 1))
done
check "memory that comes online is tested ($(reached) tenths of a GiB reached)" test "$(reached)" -ge 14
kill -INT $watch
wait $watch
cat /tmp/report
check "nobody was killed" nobody_was_killed
