# What scenarios of uncorrectable errors share, for them to include. A scenario says by `frame_under_test PROCESS` which
# frame a process tests now; it prints nothing if that is none.

# strike PROCESS: the hardware reports an error in such a frame, which is in $struck. The process stands still while its
# frame is looked up.
strike() {
  struck=
  until [ -n "$struck" ]; do
    kill -CONT $1 || return 1
    usleep 10000
    kill -STOP $1
    struck=$(frame_under_test $1)
  done
  kill -CONT $1
  host uncorrected $((struck * 4096))
}

# finds TEST: this `rampart test` ends and has found it. Its report is in /tmp/report, what it said in /tmp/said.
finds() {
  wait $1
  code=$?
  dmesg | grep -E 'mce:|Memory failure'
  cat /tmp/said
  check "the test finds it: exit code $code" test $code = 1
  check "the report names the frame, and who reported it" sh -c \
    "grep -q '\"frame\": $struck' /tmp/report && grep -q '\"cause\": \"hardware\"' /tmp/report"
  check "the map has it" sh -c \
    "rampart map show | grep -q 'the hardware reported an error that it could not correct'"
  check "the kernel counts it" test "$(meminfo HardwareCorrupted)" = $((poisoned + 4))
}

# goes_on DAEMON: this `rampart watch` lives, and has told of the frame, the second that was struck. Its events are in
# /tmp/events.
goes_on() {
  sleep 20
  check "the daemon lives" kill -0 $1
  check "it has told of the frame" grep "\"frame\":$struck" /tmp/events
  check "both are counted" test "$(meminfo HardwareCorrupted)" = $((poisoned + 8))
}

# are_out_of_use FRAME FRAME: a program that takes nearly all memory gets none of these frames.
are_out_of_use() {
  marked $(($(meminfo MemAvailable) / 1024 - 32)) | sort -n -u >/tmp/mapped
  check "no program gets them" sh -c "test -s /tmp/mapped && ! grep -qxE '$1|$2' /tmp/mapped"
}

# ends DAEMON: it stops when it is asked to; what it said is in /tmp/watched.
ends() {
  kill -INT $1
  wait $1
  code=$?
  cat /tmp/watched
  check "it stops cleanly" test $code -le 1
}
