# What the host of a virtual machine gets back of memory that the machine had at boot: nothing by taking blocks offline.
# Free page reporting returns free memory of blocks that are online, and nothing of blocks that are offline.
# memory: 1G
# host: yes
# modules: virtio_pci virtio_balloon
# qemu: -device virtio-balloon-pci,free-page-reporting=on

# step NAME: reports what the host has resident, in MiB, as $resident.
step() {
  host memory || return 1
  set -- "$1" $answer
  resident=$(($9 / 1024))
  report "step $phase, $1: $resident MiB resident, $(offline) blocks offline"
}

# What QEMU has of it without a program's.
fill() {
  dd if=/dev/urandom of=/tmp/"$1" bs=1M count="$2" 2>/dev/null
}

consolidate() {
  rampart banks consolidate --target 50% --apply 2>/dev/null | tail -n 3
}

# So long the kernel takes to report what is free, and the host to take it.
REPORTED=20

mount -o remount,size=100% /tmp
phase="without reporting"
fill data 600
step "600 MiB written"
written=$resident
rm /tmp/data
sleep $REPORTED
step "and freed"
consolidate
step "offline"
check "without reporting, offline blocks return nothing ($resident of $written MiB)" test $((resident + 30)) -ge "$written"
check "half of the blocks are offline" test "$(offline)" -ge 4
rampart banks restore | tail -n 1

phase="with reporting"
load_modules
sleep $REPORTED
step "at rest"
rest=$resident
fill data 600
step "600 MiB written"
written=$resident
rm /tmp/data
sleep $REPORTED
step "and freed"
check "free memory returns while its blocks are online ($resident of $written MiB)" test $((written - resident)) -ge 480
consolidate
step "offline after that"
check "and stays with the host when they go offline" test "$resident" -le $((rest + 90))
rampart banks restore | tail -n 1

# 500 MiB go from among 600: what stays must move.
fill data 500
fill keep 100
rm /tmp/data
sleep $REPORTED
step "100 MiB left"
left=$resident
consolidate
sleep $REPORTED
step "offline, after they moved"
moved=$resident
check "where memory moved from stays resident ($left, then $moved MiB)" test "$moved" -ge $((left + 50))
rampart banks restore | tail -n 1
sleep $REPORTED
step "online again"
consolidate
sleep $REPORTED
step "offline again, with nothing to move"
check "unless its block comes online for a while ($resident MiB)" test "$resident" -le $((moved - 50))
check "half of the blocks are offline then" test "$(offline)" -ge 4
check "nobody was killed" sh -c "! dmesg | grep -iE 'oom-kill|out of memory|killed process'"
