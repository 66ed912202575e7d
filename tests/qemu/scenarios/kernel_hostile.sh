# Malicious owners of the kernel module's device: threads that claim, map, touch, give back and ask for nonsense at
# random, and are killed at random, beside programs that use memory. The kernel neither crashes nor warns, no frame is
# lost, and no program sees another's data.
# memory: 1G
# kernel-module: yes
# tcg: thread=single,tb-size=64

. /claims.sh

# Memory blocks (128 MiB) with retired frames: once offline, the kernel does not take them online again.
see_retired() {
  od -An -v -tu4 -w4 $folder/ages | awk '$1 % 536870912 == 536870911 { print int((NR - 1) / 32768) }' | sort -u \
    >/tmp/retired_blocks
}

# turn_block: takes the last memory block that can go offline, and has no retired frame, offline and online again, and
# prints its number. Fails if the kernel refuses to take it online, as it does when a frame of it was retired meanwhile.
turn_block() {
  for block in $(seq 7 -1 1); do
    ! grep -qx $block /tmp/retired_blocks || continue
    echo offline >"$memory/memory$block/state" || continue
    echo online >"$memory/memory$block/state" && echo $block
    return
  done 2>/dev/null
}

# Frames without any mark: in use by the kernel, or lost. For a claim the kernel empties the CPUs' lists of free frames.
unmarked() {
  echo 3 >/proc/sys/vm/drop_caches
  begin hold 8 && kill -KILL $held
  wait $held
  without_mark
}

# allocate: programs take memory, see that it is zero, and give it back, until /tmp/stop is there.
allocate() {
  while [ ! -e /tmp/stop ]; do
    touches small 32 || echo wrong >>/tmp/wrong
    touches huge 32 || echo wrong >>/tmp/wrong
    usleep 500000
  done
}

# turn_memory: a block goes offline and comes online again and again, until /tmp/stop is there, or it does not come.
turn_memory() {
  while [ ! -e /tmp/stop ]; do
    see_retired
    turn_block >>/tmp/turns || return
    usleep 300000
  done
}

dmesg -c >/dev/null
check "the module loads" insmod /rampart.ko claim_seconds=2
# The kernel's caches are filled first.
hostile 1000 7
before=$(unmarked)
allocate &
turn_memory &
calls=$(option calls)
hostile "${calls:-3000}" 1 >/tmp/said
check "owners that mean ill are done ($(cat /tmp/said))" test $? = 0
touch /tmp/stop
wait
# Children with a descriptor end a second later.
sleep 2
check "memory went and came meanwhile, $(grep -c . /tmp/turns) times ($(tr '\n' ' ' <$folder/new_memory))" test -s /tmp/turns
check "none of it waits any longer" sh -c "! grep waiting $folder/new_memory"
check "nothing is held" test "$(claims held)" = 0
check "no frame is left behind, as the table of ages has it" test "$(window held)" = 0
check "what programs got was zero" test ! -e /tmp/wrong
check "no more than a hundredth is retired ($(claims retired) frames)" test "$(claims retired)" -le 2621
retired=$(claims retired)
check "the kernel counts as many" test "$(meminfo HardwareCorrupted)" = $((retired * 4))
tr '\n' ' ' <$folder/claims
after=$(unmarked)
check "the module can go" rmmod rampart
check "no frame is lost ($before without a mark, then $after)" test "$after" -lt $((before + 1500))
touches small 600
check "memory is there again" test $? = 0
check "no oops, no warning" log_is_clean
