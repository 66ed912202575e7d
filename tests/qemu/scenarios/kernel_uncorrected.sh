# The hardware reports an uncorrectable error in a frame that is under test by the kernel module. The test survives, the
# frame is recorded in the map of bad frames, and it is never allocated again.
# memory: 256M
# cpus: 1
# qemu: -cpu max,vendor=GenuineIntel
# host: yes
# kernel-module: yes

. /claims.sh

# Prints the first frame of a block that a process has claimed now.
claimed_frame() {
  awk '$6 == "/dev/rampart" { print $3; exit }' /proc/$1/maps
}

# strike PROCESS: an error in the fourth frame of such a block; the frame is in $struck. The process stands still while
# its block is looked up.
strike() {
  offset=
  until [ -n "$offset" ]; do
    kill -CONT $1 || return 1
    usleep 10000
    kill -STOP $1
    offset=$(claimed_frame $1)
  done
  struck=$((0x$offset / 4096 + 3))
  kill -CONT $1
  host uncorrected $((struck * 4096))
}

dmesg -c >/dev/null
check "the module loads" insmod /rampart.ko
poisoned=$(meminfo HardwareCorrupted)
first=$((($(free_frames 2048) + 511) / 512 * 512))
range=$(printf '%#x..%#x' $first $((first + 512)))

rampart test --source kernel --frames "$range" --for 20s --retention 0s --json >/tmp/report 2>/tmp/said &
tester=$!
check "the hardware reports an error in a frame under test" strike $tester
wait $tester
code=$?
dmesg | grep -E 'mce:|Memory failure'
cat /tmp/said
check "the test finds it: exit code $code" test $code = 1
check "the report names the frame, and who reported it" sh -c \
  "grep -q '\"frame\": $struck' /tmp/report && grep -q '\"cause\": \"hardware\"' /tmp/report"
check "the map has it" sh -c "rampart map show | grep -q 'the hardware reported an error that it could not correct'"
check "the kernel counts it" test "$(meminfo HardwareCorrupted)" = $((poisoned + 4))
check "no claim holds frames any longer" test "$(claims held)" = 0

found=$struck
rampart watch --source kernel --lifetime 60s --max-share 100% --min-fidelity 9 --max-fidelity 9 --retention 0s \
  --events /tmp/events >/tmp/watched 2>&1 &
daemon=$!
check "an error comes in a frame that the daemon tests" strike $daemon
sleep 20
check "the daemon lives" kill -0 $daemon
check "it has told of the frame" grep "\"frame\":$struck" /tmp/events
check "both are counted" test "$(meminfo HardwareCorrupted)" = $((poisoned + 8))
marked $(($(meminfo MemAvailable) / 1024 - 32)) | sort -n -u >/tmp/mapped
check "no program gets them" sh -c "test -s /tmp/mapped && ! grep -qxE '$found|$struck' /tmp/mapped"
kill -INT $daemon
wait $daemon
code=$?
cat /tmp/watched
check "it stops cleanly" test $code -le 1
rampart map show
check "the module can go" rmmod rampart
check "no oops, no warning" log_is_clean
