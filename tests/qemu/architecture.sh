# What depends on the processor of the guest and its programs; `run` sources this file.
#
# ARCHITECTURE=aarch64 takes QEMU's machine `virt`, Debian's kernels and busybox for arm64, and binaries that were built
# for it (`cargo xtask aarch64`). Its RAM begins at 1 GiB, and the console has a port of its own; two serial ports on
# PCI, behind one that is not connected, stand for the second and third of a PC.

# The default: the host's architecture, and Debian's name for it. Packages are of this one until another is chosen.
architecture=x86_64 debian=amd64

# Sets what the others use: `emulator`, `debian`, `compiler`, `tools` (the prefix of binutils' programs), `ram_base`,
# `console`, and a `cache` of its own.
choose_architecture() {
  architecture=${ARCHITECTURE:-$architecture}
  emulator=qemu-system-$architecture
  case $architecture in
    x86_64) compiler=cc tools='' ram_base=0x0 console=ttyS0 ;;
    aarch64)
      debian=arm64 compiler=aarch64-linux-gnu-gcc tools=aarch64-linux-gnu- ram_base=0x40000000 console=ttyAMA0
      cache=$cache/$architecture
      ;;
    *) refuse "ARCHITECTURE is x86_64 or aarch64, not $architecture" ;;
  esac
}

need_emulator() {
  command -v "$emulator" >/dev/null || refuse "needs $emulator: apt-get install qemu-system-$(emulator_package)"
}

emulator_package() {
  if [[ $architecture = x86_64 ]]; then echo x86; else echo arm; fi
}

is_foreign() {
  [[ $architecture != x86_64 ]]
}

# apt-get and apt-cache, with lists of their own for an architecture that this system does not install.
apt() {
  local program=apt-$1
  shift
  if is_foreign; then
    mkdir -p "$cache/apt/lists/partial"
    "$program" -o APT::Architectures::="$debian" -o Dir::State::Lists="$cache/apt/lists" \
      -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= "$@"
  else
    "$program" "$@"
  fi
}

# The emulated machine, with the ports for the console $1, for reports, and for files that go to the next boot $2.
machine() {
  if is_foreign; then
    hardware=(-machine virt,memory-backend=ram,gic-version=3 -serial "file:$1" -chardev null,id=unused
      -chardev "file,id=carried,path=$2" -device pci-serial,chardev=unused -device pci-serial,chardev=port
      -device pci-serial,chardev=carried)
  else
    hardware=(-machine q35,memory-backend=ram -serial "file:$1" -serial chardev:port -serial "file:$2")
  fi
}

# The processor, with its options that a scenario asks for.
processor() {
  if is_foreign; then
    # QEMU would spend most of its time on the usual algorithm for signed pointers; this one is cheaper.
    echo max,pauth-impdef=on
  else
    echo "max${1:-}"
  fi
}

# Puts the C library of the guest's programs, and other libraries of theirs, where they look for them.
install_libraries() {
  local guest=$1 library
  if is_foreign; then
    for library in /usr/aarch64-linux-gnu/lib/{ld-linux-aarch64.so.1,libc.so.6,libm.so.6,libgcc_s.so.1}; do
      install -D -m 755 "$library" "$guest/lib/aarch64-linux-gnu/${library##*/}" ||
        refuse "needs $library: apt-get install libc6-arm64-cross"
    done
    mv "$guest/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1" "$guest/lib/"
    return
  fi
  { ldd "$rampart" "$guest"/bin/* 2>/dev/null || true; } | grep -o '[[:space:]]/[^ ]*' | sort -u | while read -r library; do
    install -D -m 755 "$library" "$guest$library"
  done
}

# Compiles the programs of guest/. Some are of x86-64 only.
install_programs() {
  local guest=$1 program
  command -v "$compiler" >/dev/null || refuse "needs $compiler: apt-get install gcc-aarch64-linux-gnu"
  for program in "$here"/guest/*.c; do
    ! is_foreign || ! grep -q 'x86-64 only' "$program" || continue
    "$compiler" -O1 -I "$root/kernel" -o "$guest/bin/$(basename "$program" .c)" "$program" ||
      refuse "$program does not compile"
  done
}
