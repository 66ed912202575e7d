# Memory that comes online is tested before anybody uses it, by `rampart watch` and the kernel module: a memory module
# that is plugged in, and memory that became bad from outside while it was offline. What waits for its test is used at
# once when nobody tests any longer: the daemon is stopped or killed, the kernel is about to kill a program because
# memory has run out, or it goes offline again.
# memory: 768M
# cpus: 2
# kernel-module: yes
# options: movablecore=512M nokaslr
# host: yes
# qemu: -m 768M,slots=2,maxmem=1280M

. /claims.sh

block_frames=32768

# new_memory NAME: frames that came online, by what became of them: tested, untested or waiting.
new_memory() {
  awk -v name="$1" '$1 == name { sum += $NF } END { print sum + 0 }' $folder/new_memory
}

# becomes NAME FRAMES: waits for that count of new memory.
becomes() {
  waits=0
  until [ "$(new_memory $1)" = "$2" ]; do
    [ $waits -lt 1200 ] || { cat $folder/new_memory $folder/claims; return 1; }
    usleep 100000
    waits=$((waits + 1))
  done
}

# set_state STATE: of the block; a program may hold a page for a moment.
set_state() {
  for try in 1 2 3 4 5 6 7 8 9 10; do
    echo "$1" 2>/dev/null >$memory/memory$block/state && return 0
    sleep 1
  done
  return 1
}

start_daemon() {
  rampart watch --source kernel --lifetime 60s --max-share 100% --max-cores 2 --max-fidelity 1 --retention 0s \
    --events /tmp/events >/tmp/watched 2>&1 &
  daemon=$!
  until [ "$(cat $folder/owner)" = $daemon ]; do usleep 50000; done
  # It asks for memory that comes online from its first look on.
  sleep 1
}

# bring_and_stop: the block comes online while the daemon is stopped, so that it waits.
bring_and_stop() {
  kill -STOP $daemon
  set_state online_movable
  [ "$(new_memory waiting)" = $block_frames ]
}

# A block in which the kernel, which nokaslr keeps in its place, has no memory of its own, and firmware no part.
block=4
total=$(meminfo MemTotal)
refused() {
  ! insmod /rampart.ko new_memory=sometimes 2>/dev/null &&
    dmesg | grep -q 'new_memory=sometimes: it is use, test or withhold'
}
dmesg -c >/dev/null
check "a policy that does not exist is refused" refused
check "the module loads" insmod /rampart.ko
check "a block goes offline" set_state offline
check "and comes online while nobody tests" set_state online_movable
check "it is used untested, and counted" becomes untested $block_frames

start_daemon
echo online_movable >$memory/auto_online_blocks
check "a memory module is plugged in" host plug module1 134217728
check "all of it is tested" becomes tested $block_frames
boot_block=$block block=32
check "and used by then" test "$(meminfo MemTotal)" = $((total + block_frames * 4))
rampart kernel status | grep '^new memory'
check "status says so" sh -c "rampart kernel status | grep -q 'frames so far: 32,768 tested, 32,768 untested'"
kill -STOP $daemon
check "while the daemon is stopped, it goes offline" set_state offline
check "its memory waits as it comes back" bring_and_stop
check "and is missing" test "$(meminfo MemTotal)" = $total
check "it can go offline again" set_state offline
check "none waits then" becomes waiting 0
kill -CONT $daemon
check "the memory module is taken out" host unplug module1

# Frames become bad while they are offline.
block=$boot_block
check "the block goes offline" set_state offline
first=$((block * block_frames)) bad= faults=
for place in 0 5 512 1023 1024 9000 32766 32767; do
  bad="$bad $((first + place))"
  faults="$faults $(printf 'stuck-at@%#x/%d/%d=%d' $((first + place)) $((place % 64)) $((place % 512)) $((place % 2)))"
done
badram add $faults
tested=$(new_memory tested) untested=$(new_memory untested)
corrupted=$(meminfo HardwareCorrupted)
check "it comes online with 8 bad frames" set_state online_movable
check "all others are tested" becomes tested $((tested + block_frames - 8))
check "none is used untested" test "$(new_memory untested)" = $untested
sleep 1
check "the kernel has retired 8" test "$(meminfo HardwareCorrupted)" = $((corrupted + 32))
rampart map show --json | awk '/^      "frame":/ { gsub(/[^0-9]/, ""); print }' | sort -n >/tmp/named
check "they are named right" test "$(echo $bad)" = "$(echo $(cat /tmp/named))"
poisoned_all() { for frame in $bad; do poisoned $frame || return 1; done; }
check "and marked" poisoned_all
badram clear
marked $(($(meminfo MemAvailable) / 1024 - 16)) | sort -n -u >/tmp/mapped
check "no program gets one, whatever it maps" sh -c \
  "cat /tmp/named /tmp/mapped | sort -n | uniq -d | awk 'END { exit NR > 0 }'"
kill -INT $daemon
wait $daemon
check "the daemon says that memory is bad" test $? = 1
rm -r /var/lib/rampart

# What waits is used when nobody tests. A block with retired frames does not come online again on every kernel, so that
# it is that of another memory module.
check "another memory module is plugged in" host plug module2 134217728
until [ -e $memory/memory32/state ]; do usleep 100000; done
block=32
start_daemon
check "it goes offline" set_state offline
untested=$(new_memory untested)
check "it waits while the daemon is stopped" bring_and_stop
kill -KILL $daemon
wait $daemon
check "the daemon is killed, and it is used" becomes untested $((untested + block_frames))

start_daemon
check "it goes offline" set_state offline
check "it waits again" bring_and_stop
echo 1 >/sys/module/rampart/parameters/claim_seconds
check "its time is up, and it is used" becomes untested $((untested + 2 * block_frames))
echo 600 >/sys/module/rampart/parameters/claim_seconds
kill -CONT $daemon
sleep 1

check "it goes offline" set_state offline
check "it waits once more" bring_and_stop
echo 1 >/proc/sys/vm/overcommit_memory
marked $(($(meminfo MemFree) / 1024 + 64)) >/tmp/mapped
check "memory is short, and it is used by who needs it" test $? = 0
check "it is counted" becomes untested $((untested + 3 * block_frames))
kill -CONT $daemon
kill -INT $daemon
wait $daemon
check "the module can go" rmmod rampart

check "it can withhold memory" insmod /rampart.ko new_memory=withhold
check "the block goes offline" set_state offline
check "and comes online, while nobody tests" set_state online_movable
sleep 5
check "it waits for one who does" becomes waiting $block_frames
start_daemon
check "who tests it" becomes tested $block_frames
kill -INT $daemon
wait $daemon
check "it goes offline" set_state offline
check "and comes online" set_state online_movable
check "it waits" becomes waiting $block_frames
check "the module can go" rmmod rampart
check "and it is used" test "$(meminfo MemTotal)" = $((total + block_frames * 4))
check "no oops, no warning" log_is_clean
check "no program was killed for want of memory" nobody_was_killed
