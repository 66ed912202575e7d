# RAM that goes bad from outside, in memory under test by `rampart test` and by `rampart watch`: each fault that acted
# is found and named by frame, line and bit, nothing else is, and the frames are on the map and retired.
# cpus: 1
# memory: 192M

: >/tmp/expected # every victim of this boot: FRAME LINE BIT
. /faults.sh

# Compares what acted with what the map names. $1: what tested.
judge() {
  badram acted
  counts=${answer#acted}
  badram clear
  reported >/tmp/reported
  cut -d' ' -f2- "$placed" >>/tmp/expected
  named >/tmp/named
  acted=0 missed= unnamed=
  number=0
  for count in $counts; do
    grep "^$number " "$placed" >/tmp/victims
    found=
    while read -r _ frame line bit; do
      grep -q "^line $frame " /tmp/named || continue
      found=yes
      [ "$line" = any ] || grep -qx "line $frame $line" /tmp/named || unnamed="$unnamed $number"
      [ "$bit" = any ] || grep -qx "bit $frame $bit" /tmp/named || unnamed="$unnamed $number"
      poisoned "$frame" || unretired="$unretired $frame"
    done </tmp/victims
    if [ -n "$found" ]; then
      acted=$((acted + 1))
    elif [ "$count" -ge "$often" ] || grep -qx $number /tmp/reported; then
      acted=$((acted + 1))
      missed="$missed $number($count)"
    fi
    number=$((number + 1))
  done
  check "$1, $kind: at least half of $number faults acted in tested frames or are reported ($acted)" test $((acted * 2)) -ge "$number"
  check "$1, $kind: every one of these is found${missed:+: missed$missed}" test -z "$missed"
  check "$1, $kind: each is named by line and bit${unnamed:+: not$unnamed}" test -z "$unnamed"
  check "$1, $kind: no other frame, line or bit is named" no_false_alarm
  check "$1, $kind: the frames are retired${unretired:+: not$unretired}" test -z "$unretired"
  unretired=
}

no_false_alarm() {
  awk 'NR == FNR { frames[$1]; if ($2 == "any") whole[$1]; if ($3 == "any") wide[$1]; line[$1 " " $2]; bit[$1 " " $3]; next }
    !($2 in frames) { print "false alarm: " $0; bad = 1; next }
    $1 == "line" && !($2 in whole) && !($2 " " $3 in line) { print "wrong line: " $0; bad = 1 }
    $1 == "bit" && !($2 in wide) && !($2 " " $3 in bit) { print "wrong bit: " $0; bad = 1 }
    END { exit bad }' /tmp/expected /tmp/named
}

# Memory of 16 MiB, in two blocks that are held to the end. Only a cell that loses its value wants what was written to
# rest.
under_test() {
  rampart test --verbose --memory 16MiB --for 1h --retention 0s >/tmp/report 2>&1 &
  tester=$!
  spoil "$1" "$2" $tester 15
  let_act $tester
  judge test
  check "test, $kind: the verdict is FAIL" test $code = 1
}

# One pass over so little memory that march elements follow each other faster than a cell loses its value: only a read
# after a delay finds it. A frame that is found before its block rests is retired meanwhile, and the page is in another
# frame then. The faults lie in a block that is under test from its start on, so every one must be found.
under_one_pass() {
  mkfifo /tmp/lines
  rampart test --verbose --memory 4MiB >/tmp/lines 2>&1 &
  tester=$!
  # Its first line comes between a block that it only measures and the first that it tests.
  exec 4</tmp/lines
  read -r _ <&4
  spoil "$1" "$2" $tester 1 stop
  cat <&4 >/tmp/report
  exec 4<&-
  rm /tmp/lines
  wait $tester
  code=$?
  badram clear
  cut -d' ' -f2- "$placed" >>/tmp/expected
  grep -v '^bad ' /tmp/report | tail -n 3
  named >/tmp/named
  count=$(wc -l <"$placed")
  missed=
  while read -r number frame line bit; do
    { grep -qx "line $frame $line" /tmp/named && grep -qx "bit $frame $bit" /tmp/named; } || missed="$missed $number"
  done <"$placed"
  check "one pass of test, $kind: at least half of $2 faults lie in its first block ($count)" test $((count * 2)) -ge "$2"
  check "one pass of test, $kind: every one of $count is found and named by line and bit${missed:+: not$missed}" test -z "$missed"
  check "one pass of test, $kind: no other frame, line or bit is named" no_false_alarm
  check "one pass of test, $kind: the verdict is FAIL" test $code = 1
  check "one pass of test, $kind: it counts these and no other page" grep -q "^FAIL: $count bad frames;" /tmp/report
}

# All free memory, again and again.
under_watch() {
  rest=0s
  [ "$1" != retention ] || rest=1s
  rampart watch --verbose --lifetime 2s --max-share 100% --busy-share 100% --retention $rest >/tmp/report 2>&1 &
  tester=$!
  # Its first line comes between a block that it only measures and the first that it tests.
  until grep -q '^watching' /tmp/report || ! kill -0 $tester; do sleep 0.1; done
  spoil "$1" "$2" $tester 8 stop
  # Two frames that alias show only when one test has both: it may take some tests more. But not many, since a frame
  # that is no longer free goes bad below whoever has it.
  let_act $tester 1000000 10
  judge watch
  check "watch, $kind: its exit code says that bad frames were found" test $code = 1
}

# From the kernel's command line: how long a kind of fault is given, in seconds (a busy host wants more); one kind
# alone; or fewer repetitions, which leave out no kind of fault.
seconds=$(sed -n 's/.*seconds=\([0-9]*\).*/\1/p' /proc/cmdline)
: "${seconds:=60}"
only=$(sed -n 's/.*only=\([^ ]*\).*/\1/p' /proc/cmdline)
if grep -qw short /proc/cmdline; then
  many=24 watched="coupling-in retention"
else
  many=200 watched="stuck-at coupling-in aliased-frames intermittent retention many"
fi
unretired=

for each in stuck-at transition coupling-in coupling-id address aliased-frames intermittent retention many; do
  [ "${only:-$each}" = $each ] || continue
  case $each in
    many) under_test many $many ;;
    retention) under_one_pass retention 6 ;;
    stuck-at) under_one_pass stuck-at 6; under_test stuck-at 6 ;;
    *) under_test $each 6 ;;
  esac
done
for each in $watched; do
  [ "${only:-$each}" = $each ] || continue
  case $each in many) under_watch many 40 ;; *) under_watch $each 6 ;; esac
done
