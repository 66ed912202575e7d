# Boots a guest by a real GRUB, under a BIOS or UEFI: what a scenario exports is what GRUB reads. `run` sources this
# file.
#
# A scenario asks for it in its report, before boot-again:
#
#   grub FIRMWARE        the next boot is by GRUB under this firmware: bios or efi
#   grub-default LINE    a line of /etc/default/grub for that boot
#
# Needs grub-mkrescue (grub-common, grub-pc-bin, grub-efi-amd64-bin, xorriso, mtools) and OVMF (ovmf).

# The firmware under which GRUB starts a boot, if the one before asked for it.
grub_firmware() {
  local work=$1 before=$(($2 - 1))
  [[ -f $work/report.$before ]] && sed -n 's/^grub //p' "$work/report.$before" | grep .
}

# Makes an image that starts the kernel with a command line, and what update-grub makes of the lines of
# /etc/default/grub: a badram command (/etc/grub.d/00_header), and arguments that follow the kernel's. Sets `start` to
# QEMU's options for it.
grub_start() {
  local work=$1 boot=$2 firmware=$3 archive=$4 line=$5 tree=$1/grub.$2
  command -v grub-mkrescue >/dev/null && command -v xorriso >/dev/null && command -v mformat >/dev/null ||
    refuse "needs grub-mkrescue, xorriso and mtools: apt-get install grub-common grub-pc-bin grub-efi-amd64-bin xorriso mtools"
  mkdir -p "$tree/boot/grub"
  cp "$kernel" "$tree/boot/vmlinuz"
  cp "$archive" "$tree/boot/initramfs"
  (
    GRUB_BADRAM="" GRUB_CMDLINE_LINUX=""
    # These lines are a shell's, here as on a machine.
    eval "$(sed -n 's/^grub-default //p' "$work/report.$((boot - 1))")"
    echo "serial --unit=0"
    echo "terminal_output serial"
    [[ -z $GRUB_BADRAM ]] || echo "badram ${GRUB_BADRAM}"
    echo "linux /boot/vmlinuz $line $GRUB_CMDLINE_LINUX"
    echo "initrd /boot/initramfs"
    echo "boot"
  ) >"$tree/boot/grub/grub.cfg"
  grub-mkrescue -o "$work/grub.$boot.iso" "$tree" --install-modules="linux normal configfile mmap serial iso9660" \
    --fonts= --locales= --themes= >"$work/grub.log" 2>&1 || refuse "no image by GRUB: $(tail -n 1 "$work/grub.log")"
  rm -rf "$tree"
  start=(-cdrom "$work/grub.$boot.iso")
  [[ $firmware != efi ]] || start+=(-drive "if=pflash,format=raw,readonly=on,file=$(ovmf)")
}

ovmf() {
  local code
  for code in /usr/share/OVMF/OVMF_CODE.fd /usr/share/OVMF/OVMF_CODE_4M.fd; do
    [[ ! -f $code ]] || { echo "$code"; return; }
  done
  refuse "needs UEFI firmware: apt-get install ovmf"
}
