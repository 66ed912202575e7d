# A real GRUB boots with as many frames as are exported: 1 to 500 by badram, under a BIOS and under UEFI, and as many
# ranges by memmap= as the kernel's line holds. One more than fits is refused. For the nightly run: a boot a step.
# memory: 512M

# Of each step: firmware, form, ranges, frames in each. The next boot is as the step says.
steps="bios:badram:1:1 bios:badram:10:1 bios:badram:100:1 bios:badram:100:5 bios:memmap:120:1
  efi:badram:1:1 efi:badram:10:1 efi:badram:50:2 efi:badram:50:10 efi:memmap:120:1"

field() {
  echo "$1" | cut -d: -f"$2"
}

# The frames of a step: rows that begin every 37 frames, from 160 MiB on.
frames_of() {
  range=0
  while [ "$range" -lt "$(field "$1" 3)" ]; do
    offset=0
    while [ "$offset" -lt "$(field "$1" 4)" ]; do
      echo $((0xa000 + 37 * range + offset))
      offset=$((offset + 1))
    done
    range=$((range + 1))
  done
}

nth() {
  echo $steps | cut -d' ' -f"$1"
}

# Frames of a step that the kernel took for memory: the ranges of System RAM in decimal, and awk.
memory_among() {
  grep -v '^ ' /proc/iomem | grep ': System RAM' | sed 's/ .*//; s/-/ /' | while read -r first last; do
    echo "range $((0x$first / 4096)) $((0x$last / 4096))"
  done >/tmp/ranges
  awk '$1 == "range" { first[++n] = $2; last[n] = $3; next }
    { for (i = 1; i <= n; i++) if ($1 >= first[i] && $1 <= last[i]) { print "frame " $1 " is memory"; break } }' /tmp/ranges "$1"
}

prepare() {
  step=$1
  export RAMPART_STORE=/var/lib/rampart/$(field "$step" 3)-$(field "$step" 4).db
  if [ ! -f "$RAMPART_STORE" ]; then
    frames_of "$step" | while read -r frame; do rampart map add "$frame" >/dev/null; done
  fi
  line=$(rampart map export --format "$(field "$step" 2)" 2>/tmp/said | grep '^GRUB_')
  cat /tmp/said
  check "$step: a line is exported" test -n "$line"
  report "grub-default $line"
  report "grub $(field "$step" 1)"
  carry /var/lib/rampart
  report "boot-again step=$step"
}

done=$(sed -n 's/.* step=\([^ ]*\).*/\1/p' /proc/cmdline)
if [ -n "$done" ]; then
  frames_of "$done" >/tmp/frames
  memory_among /tmp/frames >/tmp/memory
  head -n 5 /tmp/memory
  check "$done: none of $(wc -l </tmp/frames) frames is memory" test ! -s /tmp/memory
  check "$done: nearly all other memory is there ($(meminfo MemTotal) KiB)" test "$(meminfo MemTotal)" -gt 400000
fi
next=$(nth "$boot")
if [ -n "$next" ]; then
  prepare "$next"
else
  # The tables of UEFI hold fewer: each range is an entry of its own.
  export RAMPART_STORE=/var/lib/rampart/100-1.db
  rampart map export --format badram >/tmp/line 2>/tmp/said
  check "100 ranges are refused under UEFI, with exit code 2" test $? = 2
  cat /tmp/said
  check "with the count and what to do" grep -q '100 ranges of bad frames make .* use --format memmap' /tmp/said
  check "and without a part of them" test ! -s /tmp/line
fi
