# Rampart's kernel module for a guest; `run` sources this file.
#
# A scenario asks for it in its first lines, "# kernel-module: yes", and its guest finds it as /rampart.ko. It is built
# here from kernel/, with the headers of the guest's kernel out of their Debian packages, and each warning is an error.

# Puts the module into a guest's files.
add_kernel_module() {
  local scenario=$1 guest=$2 release tree makefile=()
  [[ -n $(setting "$scenario" kernel-module) ]] || return 0
  release=${kernel##*/vmlinuz-}
  # A kernel that was built here has its sources beside it (checked_kernel).
  tree=${kernel%/boot/*}/source compiler=gcc
  if [[ ! -d $tree ]]; then
    fetch_headers "$release"
    tree=$headers/usr/src/linux-headers-$release
    compiler=$(sed -n 's/^CC = .*)//p' "$tree/.kernelvariables")
    # The headers' own makefile looks for the common ones where packages are installed.
    makefile=(-f "../linux-headers-${release%-*}-common/Makefile")
  fi
  build_module "$release" "$tree" "${makefile[@]}"
  strip --strip-debug -o "$guest/rampart.ko" "$module/rampart.ko"
}

# The headers of a kernel, with what builds modules beside them.
fetch_headers() {
  local release=$1 packages
  headers=$cache/headers-$release
  [[ ! -e $headers/done ]] || return 0
  packages=$(headers_packages "$release") || { apt-get update -qq && packages=$(headers_packages "$release"); } ||
    refuse "Debian no longer has linux-headers-$release: delete $cache/linux-*, and a newer kernel is fetched"
  # Several words.
  # shellcheck disable=SC2086
  fetch "headers-$release" $packages
}

headers_packages() {
  echo "linux-headers-$1"
  apt-cache depends "linux-headers-$1" 2>/dev/null |
    awk '/Depends: linux-(headers-.*-common|kbuild-)/ { print $2; found = 1 } END { exit !found }'
}

# Builds $module/rampart.ko, once for each kernel and content of kernel/: RELEASE, its tree, and options for make there.
build_module() {
  local release=$1 tree=$2 tool
  shift 2
  for tool in make "$compiler"; do
    command -v "$tool" >/dev/null || refuse "the module for Linux $release needs $tool: apt-get install $tool"
  done
  module=$cache/module-$release-$(cat "$root"/kernel/{Kbuild,Makefile,*.[ch]} | sha256sum | cut -c -16)
  (
    flock 9
    [[ ! -e $module/rampart.ko ]] || exit 0
    echo "qemu: building kernel/ for Linux $release"
    rm -rf "$module"
    mkdir "$module"
    cp "$root"/kernel/{Kbuild,Makefile,*.[ch]} "$module/"
    make -C "$tree" "$@" M="$module" CONFIG_DEBUG_INFO_BTF_MODULES= W=1 KCFLAGS=-Werror modules >"$module/log" 2>&1 || {
      grep -E 'error|warning' "$module/log" >&2
      refuse "kernel/ does not build for Linux $release: $module/log says why"
    }
  ) 9>"$cache/lock" || exit 2
}
