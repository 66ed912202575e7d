# What testers find of faults from outside, and after how long: a row for each kind of fault and each tester,
#   row KIND TESTER FAULTS FOUND NAMED SECONDS
# FAULTS are those that acted in a tested frame; NAMED are those whose frame, line and bit are right; SECONDS is how
# long after the faults began the last of FOUND was reported.
# memory: 192M
# cpus: 1
# packages: memtester

. /faults.sh

# The numbers of the faults of which tester $1 has reported a victim so far, on one line.
found_by() {
  case $1 in
    memtester)
      # memtester knows places in its own buffer: what it locks into memory, from the first page on. It compares half
      # with half, and tells a place in the first. Of 16 MiB it loses twice what malloc's 16 bytes leave of a page
      # (4.6.0).
      : >/tmp/offsets
      # A frame has 512 of them: 256 bytes are near enough.
      for offset in $(grep -o 'offset 0x[0-9a-f]*' /tmp/report | sed 's/.* //; s/..$/00/' | sort -u | head -n 500); do
        echo $((offset)) >>/tmp/offsets
      done
      awk -v half=$(((16777216 - 2 * 4080) / 2)) '
        FILENAME ~ /offsets/ { seen[$1]; next }
        FILENAME ~ /frames/ { page[$1] = $3; page[$2] = $3 + 1; next }
        { for (key in seen) {
            # A subscript is text, which would be compared as text.
            offset = key + 0
            start = page[$2] * 4096
            if ((offset >= start && offset < start + 4096) || (offset + half >= start && offset + half < start + 4096))
              found[$1] } }
        END { for (number in found) print number }' /tmp/offsets /tmp/frames "$placed"
      ;;
    *)
      while read -r number frame _; do
        ! grep -q "frame $(printf '%#x' "$frame") " /tmp/report || echo "$number"
      done <"$placed"
      ;;
  esac | sort -u | tr '\n' ' '
}

# How many of the faults $* are named with a right frame, line and bit.
named_right() {
  named >/tmp/named
  for number; do
    grep "^$number " "$placed" | while read -r _ frame line bit; do
      if [ "$line" = any ]; then grep -q "^line $frame " /tmp/named; else grep -qx "line $frame $line" /tmp/named; fi &&
        { [ "$bit" = any ] || grep -qx "bit $frame $bit" /tmp/named; } && echo "$number"
    done
  done | sort -u | wc -l
}

uptime_tenths() {
  tr -d . </proc/uptime | awk '{ print int($1 / 10) }'
}

# $1: the tester's name, $2: the kind of fault, $3: MiB that it holds before the faults begin; then its command.
measure() {
  tester=$1 kind=$2 least=$3
  shift 3
  case ,${testers:-$tester}, in *,$tester,*) ;; *) return ;; esac
  "$@" >/tmp/report 2>&1 &
  process=$!
  # The first block that watch claims it only measures, before its first line.
  until [ "$tester" != watch ] || grep -q '^watching' /tmp/report || ! kill -0 $process; do sleep 0.1; done
  spoil "$kind" 4 $process "$least" || {
    kill $process 2>/dev/null
    wait $process
    return
  }
  start=$(uptime_tenths)
  end=$((start + seconds * 10))
  last=$start found=
  while [ "$(uptime_tenths)" -lt $end ] && kill -0 $process 2>/dev/null; do
    sleep 0.5
    now=$(found_by "$tester")
    [ "$now" = "$found" ] || { found=$now last=$(uptime_tenths); }
    [ "$(echo $found | wc -w)" -lt 4 ] || break
  done
  badram acted
  acted=0
  for count in ${answer#acted}; do [ "$count" -lt "$often" ] || acted=$((acted + 1)); done
  # A fault that was found has acted, though seldom.
  count=$(echo $found | wc -w)
  [ $acted -ge "$count" ] || acted=$count
  badram clear
  kill $process 2>/dev/null
  wait $process
  right=0
  [ "$tester" = memtester ] || right=$(named_right $found)
  report "row $kind $tester $acted $count $right $(((last - start) / 10)).$(((last - start) % 10))"
}

seconds=$(sed -n 's/.*seconds=\([0-9]*\).*/\1/p' /proc/cmdline)
: "${seconds:=120}"
# Only these, if any are named.
testers=$(sed -n 's/.*testers=\([a-z,]*\).*/\1/p' /proc/cmdline)

for kind in stuck-at transition coupling-in coupling-id address aliased-frames intermittent retention; do
  measure test $kind 15 rampart test --verbose --memory 16MiB --for 1h
  measure watch $kind 8 rampart watch --verbose --lifetime 2s --max-share 100% --busy-share 100%
  measure memtester $kind 15 memtester 16M
done
report "pass all testers were measured"
