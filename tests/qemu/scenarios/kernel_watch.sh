# `rampart watch` by the kernel module: all frames that can be taken are tested again before their tests end, free or in
# use, while programs allocate and free, whose data stay as they are.
# memory: 256M
# cpus: 2
# kernel-module: yes

. /claims.sh

lifetime=60

# snapshot: what was allocated so far.
snapshot() {
  cat $folder/tested >/tmp/before
}

# Prints, of the blocks that were allocated since the snapshot, by migratetype and order: how many, and how many of
# these had a valid test; then, in thousandths, the share of frames that had one: of Movable ones, of Unmovable ones,
# and of all.
allocated() {
  cat $folder/tested >/tmp/after
  awk 'NR == FNR { tested[$2 $3] = $4; untested[$2 $3] = $5; next }
    { good = $4 - tested[$2 $3]; all = good + $5 - untested[$2 $3]; size = lshift(1, $3) }
    all > 0 { print $2, $3, all, good; frames += all * size; fresh += good * size }
    all > 0 { of[$2] += all * size; fresh_of[$2] += good * size }
    function share(type) { return of[type] ? int(fresh_of[type] * 1000 / of[type]) : 1000 }
    END { print "share", share("Movable"), share("Unmovable"), int(fresh * 1000 / frames) }' /tmp/before /tmp/after
}

state() {
  rampart status --json | awk -v field="\"$1\":" '$1 == field { print $2 + 0; exit }'
}

# The memory of a program in blocks of 2 MiB without a page of the kernel was tested within a lifetime.
in_use_is_tested() {
  aged $1 $lifetime >/tmp/aged
  echo "$(cat /tmp/aged); missed $(state missed), refused $(state refused), moved $(state moved)"
  grep -q ' apart 0 ' /tmp/aged
}

check "without the module it is refused" sh -c "rampart watch --source kernel 2>&1 | grep -q 'rampart kernel load'"
dmesg -c >/dev/null
check "the module loads" insmod /rampart.ko
rampart watch --lifetime ${lifetime}s --max-share 100% --max-cores 2 --max-fidelity 1 --retention 1s \
  --events /tmp/events >/tmp/watched 2>&1 &
daemon=$!
sleep $lifetime
check "the daemon takes the module by itself" grep -q 'also in use' /tmp/watched
check "the device is its own" grep -qx $daemon $folder/owner
window coverage >/tmp/coverage
check "of $(cat /tmp/coverage) free frames, at least 99 in 100 are tested within a lifetime" \
  awk 'END { exit NR != 1 || $1 < 10000 || $2 * 100 < $1 * 99 }' /tmp/coverage
sleep $((lifetime / 2))
check "a round has ended" grep -q sweep_ended /tmp/events

# Three loads, whose pieces live for 0.1 s, 10 s and 60 s.
for load in "100 8" "10000 40" "60000 60"; do
  holder $load >/tmp/held 2>&1 &
  holder=$!
  sleep $lifetime
  snapshot
  sleep $lifetime
  allocated >/tmp/allocated
  check "holder $load: what is in use is tested in time" in_use_is_tested $holder
  kill -TERM $holder
  wait $holder
  check "its data are right: $(cat /tmp/held)" test $? = 0
  cat /tmp/allocated
  set -- $(grep share /tmp/allocated)
  check "of its allocations, 98 in 100 frames have a valid test: $2 per mille" test "$2" -ge 980
  check "so do the kernel's own: $3 per mille" test "$3" -ge 980
  check "and those of all: $4 per mille" test "$4" -ge 980
done
grep moved $folder/claims
check "what is moved comes to tested frames" awk '
  /^moved/ { all += $2 } /^moved_fresh/ { fresh = $2 } END { exit !(all > 1000 && fresh * 10 > all * 9) }' $folder/claims

kill -INT $daemon
wait $daemon
check "it stops cleanly, with nothing found" test $? = 0
check "and gives all back" test "$(claims held)" = 0
cat /tmp/watched
rampart kernel status --reach
check "the module can go" rmmod rampart
check "no oops, no warning" log_is_clean
