# The exported line keeps bad frames out from the start of the next boot.
# memory: 448M

if [ "$boot" = 1 ]; then
  for frame in 0xc000 0xc001 0xc123; do
    check "frame $frame is put on the map" rampart map add "$frame"
  done
  rampart map export --format memmap
  line=$(rampart map export --format memmap | grep '^memmap=')
  check "a line is exported" test -n "$line"
  # The line for /etc/default/grub is read by a shell, and what comes out of it by GRUB's own, which quotes alike.
  eval "$(rampart map export --format memmap | grep '^GRUB_CMDLINE_LINUX=')"
  check "both shells leave the same of the line for GRUB" test "$(eval "echo $GRUB_CMDLINE_LINUX")" = "$line"
  report "boot-again $line"
else
  cat /proc/cmdline /proc/iomem
  check "neighbours are reserved as one range" grep -qi '0c000000-0c001fff : reserved' /proc/iomem
  check "a single frame is reserved" grep -qi '0c123000-0c123fff : reserved' /proc/iomem
  check "the frame between is not" grep -qi '0c002000-0c122fff : System RAM' /proc/iomem
fi
