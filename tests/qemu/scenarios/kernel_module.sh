# Rampart's kernel module: it counts the machine's demand for memory by order, also while CPUs come and go, says what it
# cannot see, gives its device to one owner with the right to it, and goes without a trace, under load too.
# memory: 1G
# kernel-module: yes
# modules: virtio_pci virtio_balloon
# tcg: thread=single
# qemu: -device virtio-balloon-pci,free-page-reporting=on

folder=/sys/kernel/rampart

# demand TYPE ORDER allocated|freed: blocks since the module was loaded, on all nodes.
demand() {
  awk -v type="$1" -v order="$2" -v column="$([ "$3" = freed ] && echo 5 || echo 4)" \
    '$2 == type && $3 == order { sum += $column } END { printf "%d\n", sum }' $folder/demand
}

# Frames that the tracepoints saw allocated since the module was loaded.
seen() {
  awk '$1 == "allocated" { print $3 }' $folder/missed
}

# Frames that were allocated and not seen.
bulk() {
  awk '$1 == "allocated" { print $2 - $3 }' $folder/missed
}

# Allocations under way may be seen and not yet counted by the kernel.
nothing_is_seen_twice() {
  awk '{ print } $3 > $2 + 64 { more = 1 } END { exit more }' $folder/missed
}

# rises WHAT LEAST COMMAND...: a count that a command prints is at least so much higher than it was in $count.
rises() {
  what=$1 least=$2 was=$count
  shift 2
  count=$("$@")
  check "$what ($was, then $count)" test "$((count - was))" -ge "$least"
}

# begin CASE: the case of `ownership` runs until it says what it has, in $said; its process is $held.
begin() {
  : >/tmp/said
  ownership "$1" >/tmp/said 2>&1 &
  held=$!
  until [ -s /tmp/said ]; do kill -0 $held || return 1; done
  said=$(cat /tmp/said)
}

opens() {
  [ "$(ownership "$1")" = "$2" ]
}

owner_is() {
  [ "$(cat $folder/owner)" = "$1" ]
}

log_is_clean() {
  ! dmesg | grep -E 'BUG|WARNING|Oops|Call Trace|INFO: |general protection'
}

# allocate: programs take memory and give it back, until /tmp/stop is there.
allocate() {
  while [ ! -e /tmp/stop ]; do
    touches small 16
    touches huge 16
    dd if=/dev/zero of=/tmp/load.$1 bs=64k count=128 2>/dev/null
    rm /tmp/load.$1
  done
}

# What the kernel said at boot is not about the module.
dmesg -c >/dev/null
taint=$(cat /proc/sys/kernel/tainted)
check "the module loads" insmod /rampart.ko
check "its ABI is 1" test "$(cat $folder/abi)" = 1
check "only root reads what it counts" test "$(stat -c %a $folder/demand $folder/missed /dev/rampart | tr '\n' ' ')" = "400 400 600 "
check "the kernel is tainted by an unsigned module out of its tree, and by nothing else" \
  test "$(cat /proc/sys/kernel/tainted)" = $((taint | 4096 | 8192))

rows=$(wc -l <$folder/demand)
check "demand has a row of 64 bytes for each node, type and order" test "$(wc -c <$folder/demand)" = $((rows * 64))
check "read in odd pieces it has the same rows" \
  sh -c "[ \"\$(dd if=$folder/demand bs=1000 2>/dev/null | cut -c -21)\" = \"\$(cut -c -21 $folder/demand)\" ]"
sed -n 's/^Node *\([0-9]*\), zone *DMA32, type *\([A-Za-z]*\) .*/\1 \2/p' /proc/pagetypeinfo >/tmp/types
awk '$3 == 10 { print $1, $2 }' $folder/demand >/tmp/counted
check "nodes and types are as in pagetypeinfo" diff /tmp/types /tmp/counted
check "and each has 11 orders" test "$rows" = $(($(wc -l </tmp/types) * 11))

# touched KIND ORDER BLOCKS MOST WHAT: a program touches 64 MiB and ends: so many movable blocks come and go.
touched() {
  count=$(demand Movable "$2" allocated) freed=$(demand Movable "$2" freed)
  touches "$1" 64
  rises "$5" "$3" demand Movable "$2" allocated
  check "and not many more" test "$((count - was))" -lt "$4"
  count=$freed
  rises "which are freed when the program ends" "$3" demand Movable "$2" freed
}

touched small 0 16384 24576 "64 MiB in pages of 4 KiB are 16384 movable blocks of order 0"
touched huge 9 32 40 "64 MiB in pages of 2 MiB are 32 of order 9"

# Huge pages until there are no more: the last allocation fails, for which the tracepoint comes too.
count=$(demand Movable 9 allocated)
echo 1000 >/proc/sys/vm/nr_hugepages
got=$(cat /proc/sys/vm/nr_hugepages)
check "not all huge pages are there ($got)" test "$got" -lt 1000
rises "those that are, are counted" "$got" demand Movable 9 allocated
check "and no others" test "$((count - was))" -lt $((got + 8))
echo 0 >/proc/sys/vm/nr_hugepages

count=$(bulk)
touches bulk 64
rises "what the kernel takes in bulk is missed, and told: 64 MiB are 16384 frames" 15000 bulk
check "of what is freed, nothing is missed" awk '$1 == "freed" { less = $3 < $2 * 0.99 } END { exit less }' $folder/missed
check "nothing is seen twice" nothing_is_seen_twice

check "the owner may ask what the kernel offers" test "$(ownership info)" = "abi 1 contig 1 reporting 1 taken 0 failure 1"
load_modules
check "another reporter of free pages is noticed" test "$(ownership info)" = "abi 1 contig 1 reporting 1 taken 1 failure 1"
check "without CAP_SYS_ADMIN open gives EPERM" opens without-sys-admin EPERM
check "without CAP_SYS_RAWIO too" opens without-sys-rawio EPERM
for case in nonsense thread duplicate forked passed executed; do
  check "the device and its owner: $case" ownership $case
done
check "then nobody owns it" owner_is none

check "a program has the device" begin hold
check "and is named" owner_is $held
check "a second open gives EBUSY" opens try EBUSY
check "the module stays while the device is open" sh -c "! rmmod rampart"
kill -KILL $held
wait $held
check "SIGKILL of the owner frees the device" opens try open
check "the owner is gone" owner_is none

check "an owner leaves its descriptor to a child" begin leak
kill -KILL $held
wait $held
check "which does not keep the device" owner_is none
check "from others" opens try open
check "though it is still open" sh -c "ls -l /proc/${said#child }/fd | grep -q /dev/rampart"
child=${said#child }
check "a new owner comes" begin hold
kill -KILL "$child"
while [ -e "/proc/$child/fd/0" ]; do :; done
check "and stays when the old descriptor is closed" owner_is $held
check "also for others" opens try EBUSY
kill -KILL $held
wait $held

# The kernel's number of address spaces, also of those that are only names.
address_spaces() {
  awk '$1 == "mm_struct" { print $2 }' /proc/slabinfo
}

before=$(address_spaces) turns=0
while [ $turns -lt 300 ]; do
  ownership try >/dev/null
  turns=$((turns + 1))
done
check "nothing is left of 300 owners ($before address spaces, then $(address_spaces))" \
  test "$(address_spaces)" -lt $((before + 150))

# CPUs come and go under load: no count ever falls.
for worker in 1 2; do allocate $worker & done
cpu=/sys/devices/system/cpu/cpu1/online
fell=0 turns=0 last=0
while [ $turns -lt 20 ]; do
  echo $((turns % 2)) >$cpu
  now=$(seen)
  [ "$now" -ge "$last" ] || fell=$((fell + 1))
  last=$now turns=$((turns + 1))
done
echo 1 >$cpu
check "while a CPU goes and comes 10 times, no count falls (to $last)" test $fell = 0
check "nor is anything seen twice" nothing_is_seen_twice

# The counters begin anew with each load, and the tracepoints have no probe left after each unload.
turns=0
while [ $turns -lt 20 ]; do
  rmmod rampart && [ ! -e $folder ] && [ ! -e /dev/rampart ] && insmod /rampart.ko || break
  turns=$((turns + 1))
done
check "20 unloads and loads under load" test $turns = 20
touch /tmp/stop
wait
count=$(demand Movable 0 allocated)
touches small 8
rises "it still counts" 2048 demand Movable 0 allocated
check "programs are as well as before" nobody_was_killed

mount -t securityfs none /sys/kernel/security
check "the kernel is locked down" sh -c "echo integrity >/sys/kernel/security/lockdown"
check "then open gives EPERM" opens try EPERM
check "the module can go" rmmod rampart
check "and a locked kernel takes no unsigned module" sh -c "! insmod /rampart.ko"
check "no oops, no warning" log_is_clean
check "the kernel is tainted by nothing else" test "$(cat /proc/sys/kernel/tainted)" = $((taint | 4096 | 8192))
