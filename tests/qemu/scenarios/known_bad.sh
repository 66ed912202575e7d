# A kernel forgets at each boot what it retired. What the map knows is retired again before a test or the daemon claims
# anything, though its faults sleep; and until then the map says that the frames are in use.
# memory: 448M

[ "$boot" = 1 ] || frames=$(cat /var/lib/rampart/frames)

all_are_poisoned() {
  for frame in $frames; do poisoned "$frame" || return 1; done
}

are_said_to_be() {
  rampart map show
  test "$(rampart map show | grep -c "$1")" = 3
}

forgotten() {
  for frame in $frames; do
    if poisoned "$frame"; then return 1; fi
  done
  are_said_to_be 'NOT retired: in use' && rampart status | grep -q '3 NOT retired: in use' &&
    rampart map show --json | grep -q '"now": "in-use"'
}

case $boot in
1)
  # In the midst of much free memory, none is the kernel's own, which it could not retire; nor are they at the next
  # boot, which goes the same way.
  first=$(free_frames 8192)
  frames=$(printf '%#x %#x %#x' $((first + 4096)) $((first + 4097)) $((first + 4387)))
  echo "$frames" >/var/lib/rampart/frames
  for frame in $frames; do rampart map add "$frame" >/dev/null; done
  check "the map is restored" rampart map restore
  check "the frames are retired" all_are_poisoned
  check "and said to be" are_said_to_be 'retired now'
  carry /var/lib/rampart
  report "boot-again"
  ;;
2)
  check "after a reboot the frames are in use, and said to be" forgotten
  rampart test --memory 32MiB >/tmp/said 2>&1
  check "a test of good memory ends" test $? != 1
  cat /tmp/said
  check "the test has retired them first" all_are_poisoned
  check "it says so" grep -q '3 frames of the map were in use and are retired again' /tmp/said
  check "and so does the map" are_said_to_be 'retired now'
  report "boot-again"
  ;;
3)
  check "after another one too" forgotten
  rampart watch --for 3s >/tmp/said 2>&1
  cat /tmp/said
  check "the daemon has retired them first" all_are_poisoned
  check "and so does the map say" are_said_to_be 'retired now'
  ;;
esac
