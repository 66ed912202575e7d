# Frames on the map are retired again at boot: the kernel counts them as bad and never hands them out.
# memory: 448M

first=$(free_frames)
check "frames are free from $first on" test "$first" -gt 0
frames=$(printf '%#x %#x %#x' "$first" $((first + 1)) $((first + 35)))

before=$(meminfo HardwareCorrupted)
for frame in $frames; do
  check "frame $frame is put on the map" rampart map add "$frame"
  if poisoned "$frame"; then report "fail frame $frame is bad before it is retired"; fi
done
rampart map restore
check "the map is restored" test $? = 0
for frame in $frames; do
  check "the kernel holds frame $frame as bad" poisoned "$frame"
done
after=$(meminfo HardwareCorrupted)
check "the kernel counts three bad frames more ($before to $after KiB)" test "$((after - before))" = 12
rampart map show
check "restoring twice does no harm" rampart map restore
check "the count stays" test "$(meminfo HardwareCorrupted)" = "$after"
rampart status
