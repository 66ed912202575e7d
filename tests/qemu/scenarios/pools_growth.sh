# `rampart banks pools` gives the kernel blocks of programs when no block is offline: they are free, and only the kernel
# can say so before it kills a process.
# memory: 2G

zones >/tmp/before
mount -o remount,size=100%,nr_inodes=0 /tmp
ulimit -n 65536

# What programs gave back stays online for the dwell.
keep_pools --dwell 1h
fill_and_free
before=$(core)
check "nothing is offline, and $before blocks are the kernel's" test "$(offline)" = 0
check "the kernel gets 900 MiB for buffers of pipes, 256 a second" bursts pipes 256 900
zones
cat /tmp/report
check "nobody was killed for it" nobody_was_killed
check "blocks of programs are the kernel's now ($(core))" test "$(core)" -ge $((before + 4))
check "which is said" grep -q '^block [0-9]*: from user pool to kernel core$' /tmp/report
kill -INT $pools
wait $pools
check "Ctrl-C restores all blocks" test $? = 0
check "each in its former zone" as_before
