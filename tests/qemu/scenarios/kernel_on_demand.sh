# On a kernel with kernel/patches, a task that would get a block without a valid test waits for its test by `rampart
# watch`; only tasks that cannot wait, and the daemon itself, get untested blocks. No task waits for long if there is no
# tester, or it is late.
# memory: 512M
# kernel: 6.12-patched
# cpus: 2
# kernel-module: yes

. /claims.sh

# demand NAME: the number in that line of the module's file on_demand.
demand() {
  awk -v name="$1" '$1 == name { print $2 }' $folder/on_demand
}

start_daemon() {
  rampart watch --source kernel --lifetime 60s --max-share 100% --max-cores 2 --max-fidelity 1 --retention 0s \
    --events /tmp/events >/tmp/watched 2>&1 &
  daemon=$!
  until [ "$(cat $folder/owner)" = $daemon ]; do usleep 20000; done
}

# counts: blocks that were allocated, and those without a valid test; then what became of the latter.
counts() {
  awk '{ all += $4 + $5; untested += $5 } END { print all; print untested }' $folder/tested
  for name in good atomic owner no_tester late; do demand $name; done
}

dmesg -c >/dev/null
check "the module loads" insmod /rampart.ko
touches small 32
check "without a tester nobody waits, and untested blocks are counted" test "$(demand no_tester)" -gt 1000

# Frames that are free now become bad. A program takes all memory as soon as there is a tester.
marked 60 4 1 >/tmp/marked 2>&1 &
program=$!
until grep -q pinned /tmp/marked; do kill -0 $program || break; done
kill -KILL $program
wait $program
sed -n 's/^free //p' /tmp/marked | tr ' ' '\n' | sort -n >/tmp/bad
check "60 frames are chosen" test "$(grep -c . /tmp/bad)" = 60
for twenty in 1 21 41; do
  faults=
  for frame in $(tail -n +$twenty /tmp/bad | head -20); do
    faults="$faults $(printf 'stuck-at@%#x/%d/%d=%d' "$frame" $((frame % 64)) $((frame % 512)) $((frame % 2)))"
  done
  badram add $faults
done
start_daemon
until [ "$(demand good)" -gt 0 ]; do touches small 1; done
marked $(($(meminfo MemAvailable) / 1024 - 32)) | sort -n -u >/tmp/mapped
check "a program that takes all memory at once gets none of them" sh -c \
  "test -s /tmp/mapped && cat /tmp/bad /tmp/mapped | sort -n | uniq -d | awk 'END { exit NR > 0 }'"
cat $folder/on_demand
check "blocks were tested while it waited" test "$(demand good)" -gt 100
until grep -q sweep_ended /tmp/events; do sleep 1; done
check "all 60 are found, on demand ($(demand bad)) or ahead, and retired" test "$(claims retired)" = 60
badram clear

# A load, when all has been tested once.
for load in "100 8" "10000 40"; do
  holder $load >/tmp/held 2>&1 &
  holder=$!
  sleep 20
  counts >/tmp/before
  sleep 60
  counts >/tmp/after
  kill -TERM $holder
  wait $holder
  check "holder $load: its data are right" test $? = 0
  # Each number is by how much one of `counts` grew.
  set -- $(awk 'NR == FNR { before[FNR] = $1; next } { print $1 - before[FNR] }' /tmp/before /tmp/after)
  echo "allocated $1, of these untested $2; on demand: tested $3, atomic $4, owner $5, no tester $6, late $7"
  check "holder $load: nobody goes without a tester, nor waits for too long" test "$6 $7" = "0 0"
  # The numbers are read one after the other, while programs allocate.
  check "holder $load: untested are only those of tasks that could not wait, and the tester's" \
    test $2 -le $(($4 + $5 + 10))
done
head -5 $folder/untested
check "who asked is listed" grep -q '^[1-9][0-9]* [a-z_]' $folder/untested
rampart kernel status | grep -A2 '^on demand'

# The tester is stopped, then killed. Its tests expire, so that tasks would wait for it.
kill -STOP $daemon
echo 5 >/sys/module/rampart/parameters/claim_seconds
sleep 56
touches small 64
check "while the daemon is stopped, programs get memory" test $? = 0
kill -CONT $daemon
holder 100 8 >/tmp/held 2>&1 &
holder=$!
for turn in 1 2 3 4 5; do
  sleep 2
  kill -KILL $daemon
  wait $daemon
  start_daemon
done
kill -INT $daemon
wait $daemon
check "the module can go while programs allocate" rmmod rampart
kill -TERM $holder
wait $holder
check "programs go on, whatever becomes of the daemon" test $? = 0
check "no oops, no warning" log_is_clean
check "no program was killed for want of memory" nobody_was_killed
