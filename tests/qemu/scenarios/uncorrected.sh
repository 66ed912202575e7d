# The hardware reports an uncorrectable error in memory that a program tests, without the kernel module. The program
# survives, the frame is recorded in the map of bad frames, and it is never allocated again.
# memory: 256M
# cpus: 1
# qemu: -cpu max,vendor=GenuineIntel
# host: yes

. /machine_check.sh

# Prints the frame of the fourth page of a block that a process tests: memory from a multiple of 2 MiB to another, whose
# first pages are present.
frame_under_test() {
  awk '$2 == "rw-p" && $5 == 0 { sub("-", " ", $1); print $1 }' /proc/$1/maps | while read -r start end; do
    [ $((0x$start % 2097152 + 0x$end % 2097152)) = 0 ] || continue
    set -- "$1" $(dd if=/proc/$1/pagemap bs=8 skip=$((0x$start / 4096)) count=4 2>/dev/null | od -A n -t u8 -v)
    [ $# = 5 ] && [ "$2" != 0 ] && [ "$3" != 0 ] && [ "$4" != 0 ] && [ "$5" != 0 ] || continue
    echo $(($5 & ((1 << 55) - 1)))
    break
  done
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
finds $tester
check "it names no other" test "$(grep -c '"cause"' /tmp/report)" = 1

found=$struck
rampart watch --source free --lifetime 60s --max-share 100% --min-fidelity 9 --max-fidelity 9 --retention 0s \
  --events /tmp/events >/tmp/watched 2>&1 &
daemon=$!
until grep -q sweep_began /tmp/events; do sleep 1; done
check "an error comes in memory that the daemon tests" strike $daemon
goes_on $daemon
dmesg | grep -E 'mce:|Memory failure'
check "and of no other" test "$(grep -c '"bad_frame"' /tmp/events)" = 1
ends $daemon
are_out_of_use $found $struck
rampart map show
check "no oops, no warning" log_is_clean
