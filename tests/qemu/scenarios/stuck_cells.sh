# Cells get stuck for good below locked pages of a guarded program, by each engine: the program never reads a wrong
# value, the frames are on the map, and retired by the time that it has ended. Nobody else gets one of them, even if the
# program ends before anybody reads what its guard found.
# memory: 448M
# kernel: 6.12

pages=4096 # 16 MiB

# Sticks one bit of page $1 of the program, in its frame, at the value that it does not hold. Pages of which the RAM
# holds a second, older image are left alone: that frame is anybody's.
stick() {
  badram find "$(printf '52414d%02x%06x00' $salt "$1")" || return
  set -- "$1" ${answer#found}
  [ $# = 2 ] || { echo "page $1: found at $*"; return; }
  frame=$(($2 / 4096))
  cell=$(printf '%#x/%d/%d' "$frame" $(($1 % 64)) $((($1 * 7) % 512)))
  badram bit "$cell" || return
  badram add "stuck-at@$cell=$((1 - ${answer#bit }))" || return
  numbers="$numbers ${answer#added }"
  frames="$frames $(printf '%#x' "$frame")"
}

# Whether fault $1 changed something; the first is number 0.
acted() {
  badram acted
  set -- "$1" $answer
  shift $(($1 + 2))
  [ "$1" -gt 0 ]
}

program_ended_by_itself() {
  [ "$1" = 0 ] && grep -qx right /tmp/said
}

has_ended() {
  grep -q '^State:.Z' "/proc/$1/status"
}

# Takes most of the free memory, and so also the frames that have just become free.
take_most_of_the_free_memory() {
  bystander $(($(sed -n 's/^MemFree: *\([0-9]*\) kB/\1/p' /proc/meminfo) / 1280))
}

# From the kernel's command line: one engine alone.
only=$(sed -n 's/.*only=\([^ ]*\).*/\1/p' /proc/cmdline)
salt=0
for engine in ${only:-move minor mprotect}; do
  salt=$((salt + 1))
  rm -f /tmp/go /tmp/said /tmp/told
  RAMPART_GUARD_LIBRARY=/bin/librampart_preload.so rampart run --engine $engine --cap 4MiB -- \
    verifier $pages 4 $salt >/tmp/said 2>/tmp/told &
  guard=$!
  while [ ! -s /tmp/said ] && kill -0 "$guard" 2>/dev/null; do sleep 1; done
  if ! grep -q '^filled' /tmp/said; then
    wait "$guard"
    cat /tmp/told
    lacks "$engine" "$(head -n 1 /tmp/told)"
    continue
  fi
  # Until all but the cap is locked and has its codes.
  sleep 10
  frames=
  numbers=
  for page in 500 777 1000 1313 1600 1919 2222 2500; do stick $page; done
  report "engine $engine: frames$frames"
  check "$engine: at least four locked pages are in one frame each" test "$(echo $frames | wc -w)" -ge 4
  program=$(sed -n 's/^filled \([0-9]*\) .*/\1/p' /tmp/said)
  kill -STOP "$guard"
  touch /tmp/go
  until has_ended "$program"; do sleep 0.1; done
  check "$engine: nobody gets its bad frames once it has ended" take_most_of_the_free_memory
  kill -CONT "$guard"
  wait "$guard"
  code=$?
  cat /tmp/told /tmp/said
  check "$engine: the program never reads a wrong value (exit code $code)" program_ended_by_itself $code
  badram sleep
  rampart map show >/tmp/map
  cat /tmp/map
  for number in $numbers; do check "$engine: fault $number acted" acted "$number"; done
  for frame in $frames; do
    check "$engine: frame $frame is on the map" grep -qiw "$frame" /tmp/map
    check "$engine: frame $frame is retired" poisoned "$frame"
  done
done
