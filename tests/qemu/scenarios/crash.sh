# A kill after each single write to a memory block, each once, while `rampart banks consolidate` and `pools` take blocks
# offline, bring them online and put them back. `rampart banks restore` always brings each block back in its former
# zone.
# memory: 1G

# restored WHAT: restores, and adds to $lost unless all is as before.
restored() {
  rampart banks restore >/tmp/restored 2>&1 || { cat /tmp/restored && lost="$lost $1"; }
  zones >/tmp/now
  diff /tmp/before /tmp/now || lost="$lost $1"
}

zones >/tmp/before
lost=
write=1
while killafter $write "$memory/" rampart banks consolidate --target 60% --reserve 2% --apply >/tmp/report 2>&1; do
  restored $write
  write=$((write + 1))
done
cat /tmp/report
restored end
check "consolidate is killed after each of several writes ($((write - 1)))" test $write -ge 4
check "restore brings everything back each time${lost:+, but after write$lost}" test -z "$lost"

# more_than_free: more MiB than are free, but less than a block more.
more_than_free() {
  echo $(($(meminfo MemFree) / 1024 + 60))
}

# load: once the pools are at rest, a program takes memory and gives it back; then the kernel does. How much stays
# online differs from run to run, so they take more than that.
load() {
  until grep -q '^pools ' /tmp/report; do kill -0 "$1" 2>/dev/null || return; done
  bursts program 100 "$(more_than_free)"
  bursts pipes 100 "$(more_than_free)"
}

ulimit -n 4096
lost= grown=0 core=0
write=1
while :; do
  killafter $write "$memory/" rampart banks pools --apply --dwell 1s >/tmp/report 2>&1 &
  killed=$!
  load $killed
  # It ends by itself only if it has not been killed yet.
  kill -INT "$(pidof rampart)" 2>/dev/null
  wait $killed || break
  grep -q 'from offline to user pool' /tmp/report && grown=$((grown + 1))
  grep -q 'from .* to kernel core' /tmp/report && core=$((core + 1))
  restored $write
  write=$((write + 1))
done
cat /tmp/report
restored end
check "pools is killed after each of several writes ($((write - 1)))" test $write -ge 8
check "in $grown of these runs the user pool had grown" test $grown -ge 2
check "in $core of these runs the kernel core had grown" test $core -ge 1
check "restore brings everything back each time${lost:+, but after write$lost}" test -z "$lost"
