# A machine with 300 MiB free is tested to the end: no kill, no failed allocation, and programs beside the test go on.
# memory: 384M

between() {
  [ "$1" -ge "$2" ] && [ "$1" -le "$3" ]
}

nobody_was_killed() {
  ! dmesg | grep -iE 'oom-kill|out of memory|killed process|page allocation failure'
}

free=$(meminfo MemAvailable)
echo "available: $free KiB of $(meminfo MemTotal) KiB"
check "about 300 MiB are free" between "$free" 280000 330000

# What is not a terminal gets no progress line.
rampart test --json >/tmp/report 2>/tmp/said
code=$?
cat /tmp/said /tmp/report
check "all free memory is tested to the end" test "$code" = 0
check "the verdict is pass" grep -q '"verdict": "pass"' /tmp/report
tested=$(sed -n 's/.*"frames_tested": \([0-9]*\).*/\1/p' /tmp/report)
check "at least half of it was tested ($tested frames)" test "$((tested * 4))" -ge "$((free / 2))"
check "nobody was killed" nobody_was_killed

# A program that wants 150 MiB in the middle of a test gets them, and its data stay what they were.
rampart test --for 30s >/tmp/report 2>&1 &
test=$!
sleep 10
check "a program beside the test gets its memory" dd if=/dev/zero of=/tmp/program bs=1M count=150
check "its data are what it wrote" test "$(tr -d '\0' </tmp/program | wc -c)" = 0
wait "$test"
code=$?
cat /tmp/report
check "the test ends with a verdict" grep -qE '^(PASS|INCOMPLETE: )' /tmp/report
check "and raises no alarm" test "$code" != 1
check "nobody was killed" nobody_was_killed
