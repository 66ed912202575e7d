# `rampart kernel load`, `status` and `unload` with a module that fits this kernel, and with some that do not: what is
# refused is refused in one line, and nothing is loaded by half.
# memory: 448M
# kernel-module: yes

release=$(uname -r)
kept=/var/lib/rampart/kernel/$release/rampart.ko
mkdir -p "${kept%/*}"

# refuses TEXT COMMAND...: exit code 2 and one line with this text.
refuses() {
  text=$1
  shift
  "$@" >/tmp/said 2>&1
  [ $? = 2 ] && [ "$(wc -l </tmp/said)" = 1 ] && grep -qF "$text" /tmp/said && return
  cat /tmp/said
  return 1
}

# says TEXT COMMAND...: exit code 0 and this text in what it prints.
says() {
  text=$1
  shift
  "$@" >/tmp/said 2>&1 && grep -q "$text" /tmp/said && return
  cat /tmp/said
  return 1
}

is_loaded() {
  grep -q '^rampart ' /proc/modules
}

is_not_loaded() {
  ! is_loaded && [ ! -e /sys/kernel/rampart ] && [ ! -e /dev/rampart ]
}

check "before a build, load says so" refuses "no module was built for kernel $release" rampart kernel load
check "and status" says '^built  *for no kernel: `rampart kernel build`' rampart kernel status
check "headers that are not there are named" refuses "install linux-headers-$release" rampart kernel build

sed "s/vermagic=$release /vermagic=9$release /" /rampart.ko >$kept
check "a module of another kernel is refused" refuses "was built for kernel 9$release, and $release is running" rampart kernel load
sed "s/vermagic=$release SMP /vermagic=$release smp /" /rampart.ko >$kept
check "so is one of another configuration" refuses "headers that are installed now" rampart kernel load
echo text >$kept
check "and what is no module" refuses "is not Rampart's kernel module" rampart kernel load
check "nothing is loaded" is_not_loaded

cp /rampart.ko $kept
check "status has the module" says "^built  *for $release (running)" rampart kernel status
check "it is loaded" says "^loaded  *$kept; ABI 1" rampart kernel load
check "by the kernel's own account" is_loaded
check "loading it again is no failure" says '^loaded  *before; ABI 1' rampart kernel load
check "nobody uses it" says '^loaded  *ABI 1; in use by nobody' rampart kernel status
check "nor owns its device" says '^owner  *none' rampart kernel status
rampart kernel status --json >/tmp/status
check "what it counted is shown" grep -q '"allocated": [1-9]' /tmp/status
check "of both tables" grep -q '"allocated_seen": [1-9]' /tmp/status
check "and summed by order" says '^demand  *order 0  *[1-9][0-9,]* blocks allocated' rampart kernel status

exec 5</dev/rampart
check "who has the device is named" says "^owner  *process $$ " rampart kernel status
check "and keeps the module from being unloaded" refuses "in use by process $$ (" rampart kernel unload
check "it is still loaded" is_loaded
exec 5<&-
check "it is unloaded when nobody has the device" says '^unloaded' rampart kernel unload
check "and is gone" is_not_loaded
check "unloading it again is no failure" says '^not loaded' rampart kernel unload

mount -t securityfs none /sys/kernel/security
echo integrity >/sys/kernel/security/lockdown
check "under a lockdown it must be signed" refuses 'signed modules only (lockdown integrity)' rampart kernel load
check "status says so" says '^modules  *must be signed: lockdown integrity' rampart kernel status
printf '~Module signature appended~\n' >>$kept
check "a signature that is none is refused by the kernel" refuses 'no signature that it trusts' rampart kernel load
check "still nothing is loaded" is_not_loaded
echo 1 >/proc/sys/kernel/modules_disabled
check "a kernel whose modules are switched off says so" refuses 'kernel.modules_disabled is 1' rampart kernel load
check "no oops, no warning" sh -c "! dmesg | grep -E 'BUG|WARNING|Oops|Call Trace'"
