# A machine with 300 MiB free is tested to the end, all of it but for a reserve: no kill, no failed allocation, and
# programs beside the test go on.
# memory: 384M

between() {
  [ "$1" -ge "$2" ] && [ "$1" -le "$3" ]
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
bytes() {
  sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" /tmp/report
}
tested=$(bytes tested) request=$(bytes request)
check "the request is what is free but for a reserve of 64 MiB at most ($request bytes)" \
  test "$((request / 1024 + 65536))" -ge "$(meminfo MemFree)"
check "at least 99 % of the request was tested ($tested bytes)" test "$((tested * 100))" -ge "$((request * 99))"
check "nobody was killed" nobody_was_killed

# A program that wants 150 MiB in the middle of a test gets them, and its data stay what they were. What it took and
# holds was not tested, and the verdict says so.
free=$(meminfo MemFree)
rampart test >/tmp/report 2>&1 &
test=$!
# As soon as the test has begun to claim memory: what is tested already may go back to programs.
while [ "$(meminfo MemFree)" -gt $((free - 8192)) ] && kill -0 $test 2>/dev/null; do :; done
check "a program beside the test gets its memory" dd if=/dev/zero of=/tmp/program bs=1M count=150
check "its data are what it wrote" test "$(tr -d '\0' </tmp/program | wc -c)" = 0
wait "$test"
code=$?
cat /tmp/report
check "what the program took makes the test incomplete" test "$code" = 2
check "the verdict says how much was tested" grep -qE '^INCOMPLETE: .* tested, [0-9.]+ % of the request' /tmp/report
check "nobody was killed" nobody_was_killed

# The program ends: all is tested again.
rm /tmp/program
rampart test >/tmp/report 2>&1
code=$?
cat /tmp/report
check "when the program has ended, the test passes again" test "$code" = 0
check "with 99 % of the request or more" grep -qE '^PASS: .* tested, (99(\.[0-9])?|100) % of the request' /tmp/report
