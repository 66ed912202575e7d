# Builds Linux 6.12 kernels for guests; checked_kernel and patched_kernel source this file.
#
# The sources are Debian's package linux-source-6.12; a kernel has few drivers. It is kept in the cache (see `run`) with
# its sources, for which the module is built. A kernel that is there is not built again.

cache=${QEMU_CACHE:-$here/../../target/qemu}

# What a guest of `run` needs.
base="64BIT SMP PRINTK TTY SERIAL_8250 SERIAL_8250_CONSOLE SERIAL_8250_PNP BLK_DEV_INITRD BINFMT_ELF BINFMT_SCRIPT PROC_FS
  PROC_SYSCTL SYSFS TMPFS SHMEM DEVTMPFS NET UNIX FUTEX EPOLL SIGNALFD TIMERFD EVENTFD AIO POSIX_TIMERS MULTIUSER
  ADVISE_SYSCALLS MEMFD_CREATE IO_URING FILE_LOCKING KALLSYMS ACPI PCI RTC_CLASS HIGH_RES_TIMERS NO_HZ_IDLE HUGETLBFS
  HOTPLUG_CPU BPF_SYSCALL UNWINDER_FRAME_POINTER SECURITYFS"
# What the module needs. KVM_INTEL is never loaded; MMU_NOTIFIER comes with it.
needed="MODULES MODULE_UNLOAD NUMA ACPI_NUMA SPARSEMEM_MANUAL SPARSEMEM_VMEMMAP MEMORY_HOTPLUG MEMORY_HOTREMOVE X86_MCE
  MEMORY_FAILURE MIGRATION ZONE_DEVICE COMPACTION TRANSPARENT_HUGEPAGE TRANSPARENT_HUGEPAGE_ALWAYS VM_EVENT_COUNTERS FTRACE
  ENABLE_DEFAULT_TRACERS PROC_PAGE_MONITOR VIRTUALIZATION CPU_SUP_INTEL"
# Options that the others may not take away.
kept="CONTIG_ALLOC DEVICE_MIGRATION MMU_NOTIFIER MEMORY_FAILURE MEMORY_HOTREMOVE PROC_PAGE_MONITOR"

refuse() {
  echo "${0##*/}: $1" >&2
  exit 2
}

# Unpacks the sources into $folder/source, where the next commands run. Ends the script if the kernel NAME is there, and
# was built with the options above and with this KEY, if it has one.
begin_kernel() {
  local name=$1 tool
  key=$(echo "$base $needed ${2:-}" | sha256sum | cut -c -16)
  for tool in gcc make flex bison bc patch; do
    command -v $tool >/dev/null || refuse "needs $tool: apt-get install gcc make flex bison bc patch libelf-dev libssl-dev"
  done
  folder=$cache/linux-$name
  [[ ! -e $folder/done || $(cat "$folder/done") != "$key" ]] || exit 0
  rm -rf "$folder"
  mkdir -p "$folder/boot" "$folder/package"
  (cd "$folder/package" && apt-get -qq -o APT::Sandbox::User=root download linux-source-6.12 && dpkg-deb -x ./*.deb .) ||
    refuse "cannot fetch linux-source-6.12: apt-get update"
  tar -xf "$folder"/package/usr/src/linux-source-6.12.tar.* -C "$folder"
  rm -r "$folder/package"
  mv "$folder/linux-source-6.12" "$folder/source"
  cd "$folder/source"
}

# Configures and builds the kernel: OPTIONS that are on, those of them that must still be so in the end, and modules.
# Further words are for scripts/config.
build_kernel() {
  local options=$1 checked=$2 modules=$3 option
  shift 3
  make -s tinyconfig
  for option in $base $needed $options; do ./scripts/config -e "$option"; done
  ./scripts/config -m KVM -m KVM_INTEL -d UNWINDER_ORC -d WERROR -d EXPERT "$@"
  make -s olddefconfig
  for option in $kept $checked; do
    grep -q "^CONFIG_$option=y" .config || refuse "this configuration lost $option"
  done
  make -s -j "$(nproc)" bzImage modules_prepare
  # The symbols of the kernel itself.
  cp vmlinux.symvers Module.symvers
  # Several words.
  # shellcheck disable=SC2086
  [[ -z $modules ]] || make -s -j "$(nproc)" $modules
}

# Puts the kernel where `run` finds it.
end_kernel() {
  cp arch/x86/boot/bzImage "$folder/boot/vmlinuz-$(make -s kernelrelease)"
  echo "$key" >"$folder/done"
}
