# `rampart banks pools` keeps the kernel, programs and idle memory apart while a load comes and goes; every block comes
# back in its former zone after Ctrl-C and, by `rampart banks restore`, after a kill.
# memory: 2G

tracing=/sys/kernel/tracing

movable() {
  zones | grep -c 'online Movable'
}

# A trace of a process of Rampart that waits for the kernel's reclaimer.
waits_for_reclaimer() {
  grep -qx 1 "$tracing"/instances/rampart-*/events/vmscan/mm_vmscan_wakeup_kswapd/enable 2>/dev/null
}

zones >/tmp/before
cat /tmp/before
all=$(wc -l </tmp/before)
rampart banks pools >/tmp/plan
code=$?
tail -n 4 /tmp/plan
check "a dry run shows the pools and changes nothing" sh -c "[ $code = 0 ] && grep -q '^dry run ' /tmp/plan"
check "nothing is changed" as_before

keep_pools --dwell 2s
cat /tmp/report
first=$(offline)
check "the kernel says when it begins to reclaim" waits_for_reclaimer
check "most of the idle memory is offline ($first of $all blocks)" test $((first * 2)) -ge "$all"
free=$(meminfo MemFree)
check "the reserve is free ($free KiB)" test $((free * 20)) -ge $((all * 131072))

# A program that takes 1 GiB gets it, block by block.
dd if=/dev/urandom of=/tmp/data bs=1M count=1000 2>/dev/null
sum=$(md5sum </tmp/data)
grown=$(offline)
zones
check "there is a user pool" test "$(movable)" -ge 4
check "blocks came online for it ($first, then $grown offline)" test "$grown" -le $((first - 6))
check "no memory of programs is in the way of the kernel" nobody_was_killed

# The kernel needs memory of its own: 200,000 files of a file system in RAM, each with an inode and a name.
before=$(core)
mkdir /tmp/many
(cd /tmp/many && seq 200000 | xargs touch)
check "the kernel got its memory" nobody_was_killed
check "the kernel core grew for it ($before blocks, then $(core))" test "$(core)" -gt "$before"
rm -r /tmp/many

# The program ends: its memory goes offline again.
check "its data are what they were" test "$(md5sum </tmp/data)" = "$sum"
rm /tmp/data
waited=0
until [ "$(offline)" -ge $((first - 2)) ] || [ $waited -ge 120 ]; do
  sleep 1
  waited=$((waited + 1))
done
zones
check "the idle memory is offline again ($(offline) of $first before)" test "$(offline)" -ge $((first - 2))

# Another program brings all memory online, five times.
for time in 1 2 3 4 5; do
  for folder in "$memory"/memory[0-9]*; do echo online >"$folder"/state 2>/dev/null; done
  sleep 2
done
check "pools says what comes back" grep -q '^block [0-9]*: brought online by something else' /tmp/report
check "and leaves these blocks alone for a while" test "$(offline)" -lt $((first / 2))

rampart banks consolidate --target 10% --apply >/tmp/second 2>&1
check "another command is refused meanwhile" test $? = 2
kill -INT $pools
wait $pools
code=$?
tail -n 5 /tmp/report
check "Ctrl-C restores all blocks" test "$code" = 0
check "it says so" grep -qE '^restored    ([0-9]+) of \1 ' /tmp/report
check "each block is online in its former zone" as_before
check "no trace is left" sh -c "! ls $tracing/instances | grep -q rampart"

# A kill leaves the way back. There is no tracefs, which is said.
umount $tracing
keep_pools --dwell 2s
dd if=/dev/zero of=/tmp/data bs=1M count=900 2>/dev/null
kill -KILL $pools
wait $pools 2>/dev/null
zones
rm /tmp/data
check "without tracefs, it says what that means" grep -q '^note  .*does not say when it begins to reclaim' /tmp/report
check "a kill leaves blocks offline and for programs" sh -c "[ $(offline) -ge 4 ] && [ $(movable) -ge 2 ]"
rampart banks restore >/tmp/restored 2>&1
code=$?
cat /tmp/restored
check "restore brings them back" test "$code" = 0
check "each in its former zone" as_before
check "nobody was killed" nobody_was_killed
