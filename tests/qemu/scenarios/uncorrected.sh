# The hardware reports an uncorrectable error in memory that a program tests, without the kernel module. The program
# survives, the frame is recorded in the map of bad frames, and it is never allocated again.
# memory: 256M
# cpus: 1
# qemu: -cpu max,vendor=GenuineIntel
# host: yes

# Prints the frame of the fourth page of a block that a process tests: memory from a multiple of 2 MiB to another, whose
# first pages are present.
tested_frame() {
  awk '$2 == "rw-p" && $5 == 0 { sub("-", " ", $1); print $1 }' /proc/$1/maps | while read -r start end; do
    [ $((0x$start % 2097152 + 0x$end % 2097152)) = 0 ] || continue
    set -- "$1" $(dd if=/proc/$1/pagemap bs=8 skip=$((0x$start / 4096)) count=4 2>/dev/null | od -A n -t u8 -v)
    [ $# = 5 ] && [ "$2" != 0 ] && [ "$3" != 0 ] && [ "$4" != 0 ] && [ "$5" != 0 ] || continue
    echo $(($5 & ((1 << 55) - 1)))
    break
  done
}

# strike PROCESS: an error in such a frame, which is in $struck. The process stands still while its frame is looked up.
strike() {
  struck=
  until [ -n "$struck" ]; do
    kill -CONT $1 || return 1
    usleep 10000
    kill -STOP $1
    struck=$(tested_frame $1)
  done
  kill -CONT $1
  host uncorrected $((struck * 4096))
}

log_is_clean() {
  ! dmesg | grep -E 'BUG|WARNING|Oops|Call Trace|INFO: |general protection|Bad page'
}

dmesg -c >/dev/null
poisoned=$(meminfo HardwareCorrupted)
rampart test --memory 2MiB --for 20s --retention 0s --json >/tmp/report 2>/tmp/said &
tester=$!
sleep 5
check "the hardware reports an error in memory under test" strike $tester
wait $tester
code=$?
dmesg | grep -E 'mce:|Memory failure'
cat /tmp/said
check "the test finds it: exit code $code" test $code = 1
check "the report names the frame, and who reported it" sh -c \
  "grep -q '\"frame\": $struck' /tmp/report && grep -q '\"cause\": \"hardware\"' /tmp/report"
check "it names no other" test "$(grep -c '"cause"' /tmp/report)" = 1
check "the map has it" sh -c "rampart map show | grep -q 'the hardware reported an error that it could not correct'"
check "the kernel counts it" test "$(meminfo HardwareCorrupted)" = $((poisoned + 4))

found=$struck
rampart watch --source free --lifetime 60s --max-share 100% --min-fidelity 9 --max-fidelity 9 --retention 0s \
  --events /tmp/events >/tmp/watched 2>&1 &
daemon=$!
until grep -q sweep_began /tmp/events; do sleep 1; done
check "an error comes in memory that the daemon tests" strike $daemon
sleep 20
dmesg | grep -E 'mce:|Memory failure'
check "the daemon lives" kill -0 $daemon
check "it has told of the frame" grep "\"frame\":$struck" /tmp/events
check "and of no other" test "$(grep -c '"bad_frame"' /tmp/events)" = 1
check "both are counted" test "$(meminfo HardwareCorrupted)" = $((poisoned + 8))
kill -INT $daemon
wait $daemon
code=$?
cat /tmp/watched
check "it stops cleanly" test $code -le 1
marked $(($(meminfo MemAvailable) / 1024 - 32)) | sort -n -u >/tmp/mapped
check "no program gets them" sh -c "test -s /tmp/mapped && ! grep -qxE '$found|$struck' /tmp/mapped"
rampart map show
check "no oops, no warning" log_is_clean
