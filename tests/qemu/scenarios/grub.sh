# A real GRUB, under a BIOS and under UEFI, boots with the exported lines, and the frames are out of memory: no program
# gets one, and nothing is left to be retired.
# memory: 448M

# Alone, side by side, as a row that takes two masks, and high up.
by_grub="0xc000 0xc001 0xc123 0xd001 0xd002 0xd003 0x18765"
by_kernel="0xe000 0xe100 0xe101"
export RAMPART_STORE=/var/lib/rampart/rampart.db
kernels=/var/lib/rampart/kernels.db

ask_for() {
  rampart map export --format badram | while read -r line; do report "grub-default $line"; done
  rampart --store $kernels map export --format memmap | grep '^GRUB_' | while read -r line; do report "grub-default $line"; done
  report "grub $1"
  carry /var/lib/rampart
  report "boot-again"
}

none_is_memory() {
  for frame in "$@"; do
    if is_memory "$frame"; then echo "frame $frame is memory"; return 1; fi
  done
}

all_are_memory() {
  for frame in "$@"; do
    if ! is_memory "$frame"; then echo "frame $frame is no memory"; return 1; fi
  done
}

verify() {
  cat /proc/cmdline
  check "$1: frames that GRUB left out are no memory" none_is_memory $by_grub
  check "$1: frames that the kernel reserved are no memory" none_is_memory $by_kernel
  check "$1: the frames beside are" all_are_memory 0xbfff 0xc002 0xc124 0xd000 0xd004 0xdfff 0xe001
  rampart map show
  check "$1: all of them are said to be reserved" test "$(rampart map show | grep -c 'out of use: reserved at boot')" = 7
  check "$1: there is nothing to restore" rampart map restore
  check "$1: nor of the kernel's" rampart --store $kernels map restore
  check "$1: and no frame was retired" test "$(meminfo HardwareCorrupted)" = 0
}


case $boot in
1)
  for frame in $by_grub; do rampart map add "$frame" >/dev/null; done
  for frame in $by_kernel; do rampart --store $kernels map add "$frame" >/dev/null; done
  check "frames are on the map" test "$(rampart map show | grep -c 'NOT retired: in use')" = 7
  ask_for bios
  ;;
2)
  verify BIOS
  ask_for efi
  ;;
3)
  check "this boot is by UEFI" test -d /sys/firmware/efi
  verify UEFI
  ;;
esac
