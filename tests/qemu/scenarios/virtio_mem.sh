# The host takes back by virtio-mem what `rampart banks` says can go: idle memory that `pools` took offline. Programs
# keep their data, the pools use what the host gives again, and what is gone is not missed at the end.
# memory: 512M
# virtio-mem: 1G
# modules: virtio_pci virtio_mem

# What `rampart banks` says of virtio-mem: plugged, offline or can_be_emptied, in bytes.
of_virtio_mem() {
  rampart banks --json | awk -v key="\"$1\":" '/"virtio_mem": \{/ { inside = 1 } inside && $1 == key { print $2 + 0; exit }'
}

# What the host sees: requested, actual, and what it has resident, in KiB.
look() {
  host memory || return 1
  set -- $answer
  requested=$2 actual=$4 resident=$6
}

# Waits until the device has what is requested, for two minutes at most.
settle() {
  tries=0
  while look && [ "$requested" != "$actual" ] && [ $tries -lt 120 ]; do
    sleep 1
    tries=$((tries + 1))
  done
  report "requested $requested actual $actual resident $resident KiB"
}

echo online_movable >"$memory"/auto_online_blocks
load_modules
settle
zones
rampart banks >/tmp/banks
cat /tmp/banks
check "rampart banks knows the host's memory" grep -q '^virtio-mem  1 GiB is from the host, of which 0 B is offline' /tmp/banks
check "block by block" test "$(grep -c ' virtio-mem ' /tmp/banks)" = 8
check "all of it is in use by the device" test "$actual" = $((1 << 30))
check "and resident on the host" test "$resident" -ge $((1 << 20))

mount -o remount,size=100% /tmp
dd if=/dev/urandom of=/tmp/data bs=1M count=300 2>/dev/null
sum=$(md5sum </tmp/data)
keep_pools --dwell 2s
cat /tmp/report
rampart banks | tail -n 4
can=$(of_virtio_mem offline)
check "idle memory can go back ($((can >> 20)) MiB)" test "$can" -ge $((512 << 20))
check "the host's memory goes before the machine's own" sh -c "! grep -q 'block [0-7]: from user pool to offline' /tmp/report"

# The host takes it.
look
before=$resident
host shrink "$can"
settle
check "the host has all that it asked for" test "$requested" = "$actual"
check "its memory is free by 95 % of that ($((before - resident)) KiB)" test $(((before - resident) * 100)) -ge $((can / 1024 * 95))
zones
check "the blocks are gone" test "$(of_virtio_mem offline)" = 0
check "the data are what they were" test "$(md5sum </tmp/data)" = "$sum"
check "no block came back, and none was missed" sh -c "! grep -E 'something else|stays in' /tmp/report"

# It gives it again, and programs get it.
host request $((1 << 30))
settle
check "the device has it again" test "$actual" = $((1 << 30))
dd if=/dev/urandom of=/tmp/more bs=1M count=600 2>/dev/null
check "programs get it" test "$(wc -c </tmp/more)" = $((600 << 20))
check "nobody was killed" nobody_was_killed
rm /tmp/more

# Ctrl-C after the host took some: what is gone is not missed.
tries=0
until [ "$(of_virtio_mem offline)" -ge $((256 << 20)) ] || [ $tries -ge 60 ]; do
  sleep 1
  tries=$((tries + 1))
done
host shrink $((256 << 20))
settle
check "the host has 256 MiB again" test "$requested" = "$actual"
kill -INT $pools
wait $pools
code=$?
tail -n 3 /tmp/report
check "Ctrl-C restores all blocks that are left" test "$code" = 0
check "none is offline" sh -c "! grep -q offline $memory/memory[0-9]*/state"
check "rampart banks restore has nothing left to do" sh -c "rampart banks restore | grep -q '^nothing to bring back'"

# The host takes a part of a block that is online. That block can go offline like any other.
host shrink $((48 << 20))
settle
check "the host takes a part of a block" test "$requested" = "$actual"
rampart banks --json >/tmp/json
check "rampart banks shows the part" grep -qE '"unplugged": (50331648|33554432|16777216)' /tmp/json
rampart banks consolidate --target 90% --reserve 0% --apply >/tmp/second 2>&1
cat /tmp/second
zones
partial=$(rampart banks --json | grep -c '"unplugged": [1-9]')
check "its block goes offline" test "$partial" = 0
rampart banks restore >/tmp/restored 2>&1
code=$?
cat /tmp/restored
check "and comes back" test $code = 0
check "the data are what they were" test "$(md5sum </tmp/data)" = "$sum"
check "nobody was killed" nobody_was_killed
