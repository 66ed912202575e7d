# Runs a command in another root, in mount and process namespaces of its own: enter.sh ROOT TOOLCHAIN COMMAND
# [ARGUMENT...]
#
# Every mount and every process goes with the namespaces, however this ends.
set -eu
root=$1 toolchain=$2
shift 2
mount --bind "$root" "$root"
mkdir -p "$root/opt/rust"
mount --bind "$toolchain" "$root/opt/rust"
mount -o remount,bind,ro "$root/opt/rust"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/dev/shm"
# Not chroot: Linux refuses user namespaces to whoever lives in one.
cd "$root"
pivot_root . .
umount -l .
cd /
exec "$@"
