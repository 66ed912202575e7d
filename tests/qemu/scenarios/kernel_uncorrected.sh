# The hardware reports an uncorrectable error in a frame that is under test by the kernel module. The test survives, the
# frame is recorded in the map of bad frames, and it is never allocated again.
# memory: 256M
# cpus: 1
# qemu: -cpu max,vendor=GenuineIntel
# host: yes
# kernel-module: yes

. /claims.sh
. /machine_check.sh

# Prints the fourth frame of a block that a process has claimed now, of 2 MiB at least: its test takes a while.
frame_under_test() {
  awk '$6 == "/dev/rampart" { sub("-", " ", $1); print $1, $3 }' /proc/$1/maps | while read -r start end offset; do
    [ $((0x$end - 0x$start)) -ge 2097152 ] || continue
    echo $((0x$offset / 4096 + 3))
    break
  done
}

dmesg -c >/dev/null
check "the module loads" insmod /rampart.ko
poisoned=$(meminfo HardwareCorrupted)
first=$((($(free_frames 2048) + 511) / 512 * 512))
range=$(printf '%#x..%#x' $first $((first + 512)))

rampart test --source kernel --frames "$range" --for 20s --retention 0s --json >/tmp/report 2>/tmp/said &
tester=$!
check "the hardware reports an error in a frame under test" strike $tester
finds $tester
check "no claim holds frames any longer" test "$(claims held)" = 0

found=$struck
rampart watch --source kernel --lifetime 60s --max-share 100% --min-fidelity 9 --max-fidelity 9 --retention 0s \
  --events /tmp/events >/tmp/watched 2>&1 &
daemon=$!
check "an error comes in a frame that the daemon tests" strike $daemon
goes_on $daemon
are_out_of_use $found $struck
ends $daemon
rampart map show
check "the module can go" rmmod rampart
check "no oops, no warning" log_is_clean
