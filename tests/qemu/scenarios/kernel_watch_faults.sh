# Memory that becomes bad from outside while `rampart watch` tests it by the kernel module: of 200 frames, the 180 that
# are free or can be moved are found, named and retired before anybody gets them; 20 pinned ones are not reached.
# memory: 256M
# cpus: 2
# kernel-module: yes

. /claims.sh

lifetime=60

# frames KIND: those that `marked` has named, a line each.
frames() {
  sed -n "s/^$1 //p" /tmp/marked | tr ' ' '\n' | sort -n
}

on_the_map() {
  rampart map show --json | awk '/^      "frame":/ { gsub(/[^0-9]/, ""); print }' | sort -n
}

check "the module loads" insmod /rampart.ko
rampart watch --source kernel --lifetime ${lifetime}s --max-share 100% --max-cores 2 --max-fidelity 1 --retention 0s \
  --events /tmp/events >/tmp/watched 2>&1 &
daemon=$!
until grep -q sweep_ended /tmp/events; do sleep 1; done
corrupted=$(meminfo HardwareCorrupted)
marked 90 90 20 >/tmp/marked 2>&1 &
program=$!
until grep -q pinned /tmp/marked; do kill -0 $program || break; done
(frames free; frames used) | sort -n >/tmp/bad
frames pinned >/tmp/pinned
check "180 frames that can be had, and 20 that cannot" test "$(cat /tmp/bad | wc -l) $(cat /tmp/pinned | wc -l)" = "180 20"

# In portions: a command to badram is one line.
number=0 faults=
for frame in $(cat /tmp/bad /tmp/pinned); do
  faults="$faults $(printf 'stuck-at@%#x/%d/%d=%d' "$frame" $((number * 5 % 64)) $((number * 37 % 512)) $((number % 2)))"
  number=$((number + 1))
  if [ $((number % 20)) = 0 ]; then
    badram add $faults
    faults=
  fi
done
sleep $lifetime
on_the_map >/tmp/named
check "within a lifetime all 180 are found, named right, and no other ($(cat /tmp/named | wc -l))" diff /tmp/bad /tmp/named
badram acted
echo "acted: $answer"
badram clear
retired=yes
for frame in $(cat /tmp/bad); do poisoned "$frame" || retired="$retired, not $frame"; done
check "all are retired ($retired)" test "$retired" = yes
check "the kernel counts them" test "$(meminfo HardwareCorrupted)" = $((corrupted + 180 * 4))
check "so does the module" test "$(claims retired)" = 180
kill -0 $program
check "the program lives" test $? = 0
rampart status | grep '^in use'
check "frames that cannot be moved are said to be late" test \
  "$(rampart status --json | awk '$1 == "\"refused\":" { print $2 + 0; exit }')" -ge 20
kill -KILL $program
wait $program

free=$(($(meminfo MemAvailable) / 1024 - 16))
marked $free | sort -n -u >/tmp/mapped
check "no program gets one of them, whatever it maps ($free MiB)" sh -c \
  "cat /tmp/bad /tmp/mapped | sort -n | uniq -d | awk 'END { exit NR > 0 }'"
kill -INT $daemon
wait $daemon
check "the daemon says that memory is bad" test $? = 1
grep -v frame /tmp/watched | tail -12
check "the store has them" sh -c "rampart map show | grep -c . >/dev/null && ! rampart map show | grep -q 'in use'"
check "the module can go" rmmod rampart
check "and they stay retired" test "$(meminfo HardwareCorrupted)" = $((corrupted + 180 * 4))
check "no oops, no warning" log_is_clean
check "no program was killed for want of memory" nobody_was_killed
