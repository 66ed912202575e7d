# `rampart test` of chosen frames of the machine, by the kernel module: free ones, and those of programs, whose memory
# is moved meanwhile; frames that are bad from outside are found, named and retired, and what cannot be had is said.
# memory: 256M
# cpus: 1
# kernel-module: yes

. /claims.sh

# tests OPTION...: one test; its report is in /tmp/report, its exit code in $code.
tests() {
  rampart test --retention 0s "$@" >/tmp/report 2>&1
  code=$?
  cat /tmp/report
}

# refused WORDS OPTION...: one line with these words, and exit code 2.
refused() {
  words=$1
  shift
  tests "$@"
  test $code = 2 && test "$(wc -l </tmp/report)" = 1 && grep -q -- "$words" /tmp/report
}

end() {
  kill -KILL $held
  wait $held
}

check "without the module it is refused in one line" refused 'rampart kernel load' --source kernel
dmesg -c >/dev/null
check "the module loads" insmod /rampart.ko
check "frames are not chosen from what is free" refused 'leave it out' --source free --used
check "nor beside an amount" refused 'leave --memory' --used --memory 16MiB
check "what is no memory is refused" refused 'is memory that is online' --frames 0xf0000..0xf1000
check "and what is no range" sh -c "! rampart test --frames 7 2>/tmp/said && grep -q 0x40000..0x80000 /tmp/said"
begin hold 8
check "who has the device is named" refused window --source kernel
end

tests --source kernel --json
check "all free frames are tested" test $code = 0
tested=$(claims tested)
check "as the module counts them ($tested)" test "$tested" -ge 20000
check "none is held after it" test "$(claims held)" = 0
rampart kernel status --reach --json >/tmp/reach
rampart kernel status --reach
check "the reach is known, and nearly all free frames in it are tested" awk '
  /"group": "free"/ { free = 1 } free && /"frames"/ { frames = $2 + 0 } free && /"tested"/ { tested = $2 + 0; free = 0 }
  END { print frames, tested; exit !(frames > 10000 && tested * 100 >= frames * 95) }' /tmp/reach
check "so is the share of what was allocated" sh -c "rampart kernel status | grep -q '^tested *of the allocated blocks: '"
tests
check "memory can be tested without the module too" grep -q '^PASS' /tmp/report

first=$(free_frames 2048)
first=$(((first + 511) / 512 * 512))
frames=$(printf '%#x..%#x' $first $((first + 1024)))
tested=$(claims tested)
tests --frames "$frames"
check "a range of free frames is tested" test "$code $(($(claims tested) - tested))" = "0 1024"
check "an amount is named" grep -q '4 MiB, 1 pass' /tmp/report

# A program's memory is moved, and its data stays. It waits meanwhile: testers leave the CPU to programs.
verifier 8192 2 1 >/tmp/verified 2>&1 &
verifier=$!
until grep -q filled /tmp/verified; do sleep 1; done
tests --used
check "frames in use are tested, and what is in them moves" grep -q '^moved' /tmp/report
check "all that can be moved was ($code)" test $code = 0
check "the rest is said to be in use" grep -q 'in use' /tmp/report
touch /tmp/go
wait $verifier
check "the program's data is as it was" grep -qx right /tmp/verified

tests --used --frames 0x1000..0x10000
check "of named frames all are wanted, and the kernel's own cannot be had" test $code = 2
check "which is said" grep -q 'did not give' /tmp/report

rampart test --source kernel --for 1h >/tmp/report 2>&1 &
tester=$!
until [ "$(claims held)" -gt 0 ]; do kill -0 $tester || break; done
kill -INT $tester
wait $tester
check "Ctrl-C stops a test" test $? = 2
check "which says so" grep -q 'stopped before its end' /tmp/report
check "and gives all frames back" test "$(claims held)" = 0

# A test that is stopped loses what it has claimed, and tests it again.
echo 1 >/sys/module/rampart/parameters/claim_seconds
lost=$(claims lost_time)
rampart test --source kernel --json --retention 0s --march 'March SS' >/tmp/report 2>&1 &
tester=$!
until [ "$(claims held)" -gt 0 ]; do kill -0 $tester || break; done
kill -STOP $tester
until [ "$(claims held)" = 0 ]; do sleep 1; done
check "the claims of a test that is stopped end" test "$(claims lost_time)" -gt "$lost"
kill -CONT $tester
wait $tester
code=$?
cat /tmp/report
check "it goes on when it may, and passes" test $code = 0
check "it knows what it lost" sh -c "! grep -q '\"lost\": 0,*$' /tmp/report"
lost=$(claims lost_time)
tests --source kernel --fidelity 8
check "a test that goes on loses none, however long it takes" test "$code $(claims lost_time)" = "0 $lost"

# Bad memory: 8 frames that are free, and 4 of a program.
first=$(free_frames 2048)
check "a program uses 48 MiB" begin user 12288
bad=
for number in 0 1 2 3 4 5 6 7; do bad="$bad $((first + number * 131 + 7))"; done
for number in 2 3 4 5; do bad="$bad $(echo "$said" | cut -d ' ' -f $number)"; done
faults= number=0
for frame in $bad; do
  faults="$faults $(printf 'stuck-at@%#x/%d/%d=%d' "$frame" $((number * 5 % 64)) $((number * 37 % 512)) $((number % 2)))"
  number=$((number + 1))
done
badram add $faults
corrupted=$(meminfo HardwareCorrupted)
tests --used
badram acted
echo "acted: $answer"
badram clear
check "bad frames are found" test $code = 1
rampart map show --json | awk '/^      "frame":/ { gsub(/[^0-9]/, ""); print }' | sort >/tmp/named
echo "$bad" | tr ' ' '\n' | grep . | sort >/tmp/bad
check "all 12, free or in use, and no other" diff /tmp/bad /tmp/named
retired=yes
for frame in $bad; do poisoned "$frame" || retired="$retired, not $frame"; done
check "all are retired ($retired)" test "$retired" = yes
check "the kernel counts them" test "$(meminfo HardwareCorrupted)" = $((corrupted + 48))
check "so does the module" test "$(claims retired)" = 12
kill -0 $held
check "the program lives" test $? = 0
end
check "the map says that they are out of use" sh -c "! rampart map show | grep 'in use'"
tests --used
check "and the next test finds nothing more" test $code = 0

check "the module can go" rmmod rampart
check "no oops, no warning" log_is_clean
check "no program was killed for want of memory" nobody_was_killed
