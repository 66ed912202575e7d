# Frames that Rampart's kernel module hands to its owner: chosen free ones, those of the kernel's free lists, and used
# ones whose content moves; they are empty, seen by nobody else, and go back whatever becomes of the owner, of its time,
# of memory and of a memory block.
# A bad one never does. They go back as the kernel is configured to have free pages: zeroed, or poisoned and unmapped.
# memory: 1G
# kernel-module: yes
# tcg: thread=single

. /claims.sh

# Waits until a count of frames is as said; the time limit of claims is 3 s here.
comes_to() {
  waited=0
  until [ "$(claims "$1")" = "$2" ]; do
    [ $waited -lt 300 ] || return 1
    sleep 1
    waited=$((waited + 1))
  done
}

# Frames without any mark: in use by the kernel, on a list of a CPU, or lost.
unmarked() {
  echo 3 >/proc/sys/vm/drop_caches
  echo 1 >/proc/sys/vm/compact_memory
  without_mark
}

types() {
  awk '/^Number of blocks/ { on = 1 } on' /proc/pagetypeinfo
}

# Pageblocks of programs, in a copy of that part of pagetypeinfo.
movable() {
  awk '/^Number/ { for (i = 1; i <= NF; i++) if ($i == "Movable") column = i } /^Node/ { n += $(column) } END { print n }' "$1"
}

# The kernel's own memory becomes full of holes: of each 100 files that it knew it forgets 99.
make_holes() {
  for folder_of_files in $(seq 20); do
    mkdir -p /tmp/files/$folder_of_files
    (cd /tmp/files/$folder_of_files && seq 1000 | xargs touch)
  done
  for folder_of_files in $(seq 20); do
    (cd /tmp/files/$folder_of_files && seq 1000 | grep -v '00$' | xargs rm)
  done
  echo 2 >/proc/sys/vm/drop_caches
}

# How many pageblocks have another type in the second of two copies of that part of pagetypeinfo.
changed() {
  awk '/^Node/ { for (i = 5; i <= NF; i++) if (NR == FNR) was[$2 $4 i] = $(i); else if ($(i) > was[$2 $4 i]) n += $(i) - was[$2 $4 i] }
    END { print n + 0 }' "$1" "$2"
}

# covers WHEN: what `window listed` can have is 99 % of all free frames, and pageblocks keep their types. The kernel may
# need a block of 4 MiB for itself meanwhile, as it may at any time.
covers() {
  types >/tmp/types
  said=$(window listed)
  types >/tmp/types.now
  set -- "$1" $(window coverage)
  check "of $2 free frames 99 % were tested with the free lists, $1 ($3; $said)" test $(($3 * 100)) -ge $(($2 * 99))
  changed=$(changed /tmp/types /tmp/types.now)
  check "pageblocks keep their types ($changed changed)" test "$changed" -le 2
}

# Frames that were allocated, as the kernel counts and as the module saw them, without claims.
allocated() {
  awk '$1 == "allocated" { print $2, $3 }' $folder/missed
}

# goes_offline: a memory block goes offline, in which a program has claimed 8 MiB; some hold memory of the kernel.
goes_offline() {
  for block in 6 5 4 3 2; do
    if begin hold 2048 $block; then
      lost=$(claims lost_offline)
      echo offline >"$memory/memory$block/state" && return 0
    fi
    kill -KILL $held
    wait $held
  done
  return 1
}

dmesg -c >/dev/null
check "the module loads" insmod /rampart.ko claim_seconds=3

if [ "$boot" -gt 1 ]; then
  make_holes
  covers "when the kernel's memory is full of holes"
  rm -r /tmp/files
  window move
  # All free memory but 64 MiB; each page must be zero for a program.
  check "what was tested is zero for programs, with $(grep -oE 'init_on_free=1|page_poison=1' /proc/cmdline)" \
    touches small $(($(meminfo MemAvailable) / 1024 - 64))
  check "no oops, no warning, no corruption" log_is_clean
  [ "$boot" -gt 2 ] || report "boot-again page_poison=1 debug_pagealloc=on"
  report end
  reboot -f
fi

before=$(unmarked)
types >/tmp/types

for case in refusals neighbours late aliases forked ages from-list; do
  check "claims and their window: $case" window $case
done
at_hand=$(window at-hand)
check "what is at hand for a CPU is tested, frame by frame ($at_hand)" test "$at_hand" -gt 0
check "nothing is held after that" test "$(claims held)" = 0

said=$(window free)
set -- $(window coverage)
check "of $1 free frames 97 % were tested ($2; $said)" test $(($2 * 100)) -ge $(($1 * 97))
types >/tmp/types.now
cat /tmp/types.now
check "no pageblock of the kernel has become one of programs" test "$(movable /tmp/types.now)" -le "$(movable /tmp/types)"

covers "when the machine is idle"
set -- $(allocated)
had=$(window lists 500)
set -- $1 $2 $(allocated)
check "$had frames of lists are no demand (the kernel counts $(($3 - $1)), the module $(($4 - $2)))" \
  test $(($3 - $1 + $4 - $2)) -lt $((had / 2))

verifier 51200 40 1 >/tmp/verified 2>&1 &
verifier=$!
until grep -q filled /tmp/verified; do :; done
touch /tmp/go
window programs $verifier >/tmp/programs
check "memory can be moved while a program uses it" test $? = 0
set -- $(cat /tmp/programs)
check "of $4 blocks of a program that can be moved 95 % were ($6)" test $(($6 * 100)) -ge $(($4 * 95))
check "few of its $2 blocks have a page of the kernel, and cannot be moved" test $(($4 * 100)) -ge $(($2 * 95))
rampart kernel status --reach >/tmp/status
grep -A3 '^reach' /tmp/status
check "the status says how much cannot be moved" grep -q 'cannot be moved: ' /tmp/status
window move >/tmp/moved
check "the program runs all the time" kill -0 $verifier
set -- $(cat /tmp/moved)
check "of $2 blocks of 2 MiB most could be tested ($4)" test $(($4 * 100)) -ge $(($2 * 80))
wait $verifier
check "its data is as it was" grep -qx right /tmp/verified

rm /tmp/go
lost=$(claims lost_owner)
check "a program claims 8 MiB" begin hold 2048
check "they are held" test "$(claims held)" = 2048
kill -KILL $held
wait $held
check "SIGKILL gives them back" test "$(claims held) $(claims lost_owner)" = "0 $((lost + 2048))"
check "an owner leaves its descriptor to a child" begin leak 2048
kill -KILL $held
wait $held
check "which does not keep the frames" test "$(claims held) $(claims lost_owner)" = "0 $((lost + 4096))"
kill -KILL "$said"
check "an owner is stopped" begin hold 2048
kill -STOP $held
check "it loses its claim when its time is up" comes_to lost_time 2048
check "nothing is held" test "$(claims held)" = 0
kill -KILL $held
wait $held
echo 3600 >/sys/module/rampart/parameters/claim_seconds

check "a memory block with claimed frames goes offline" goes_offline
check "the claim is lost" test "$(claims held) $(claims lost_offline)" = "0 $((lost + 2048))"
kill -KILL $held
wait $held
check "the block comes online" sh -c "echo online >$memory/memory$block/state"
age=$(window age "$said")
check "its frames were never tested ($age)" test "${age% freed}" = never
check "and can be claimed" begin hold 2048 $block
kill -KILL $held
wait $held

corrupted=$(meminfo HardwareCorrupted)
set -- $(window retire 4096)
check "a user that calls everything bad retires nothing" test "$1" = EDQUOT
set -- $(window retire 2)
frame=$2
check "bad frames are retired" test "$1" = retired
check "the kernel knows them" test "$(meminfo HardwareCorrupted)" = $((corrupted + 8))
check "they are poisoned" poisoned "$frame"
check "in the table they are bad" test "$(window age "$frame") $(window age $((frame + 1)))" = "bad bad"
check "the next is not" test "$(window age $((frame + 2)))" != bad
check "they are counted" test "$(claims retired)" = 2
listed=$(window unlist)
check "a bad frame of a free list is retired" poisoned "$listed"
check "its neighbour is not" test "$(window age $((listed - 1)))" != bad

lost=$(claims lost_time)
check "a program claims 32 MiB" begin hold 8192
mount -o remount,size=100% /tmp
pieces=0
while [ "$(claims held)" -gt 0 ] && [ $pieces -lt 100 ]; do
  dd if=/dev/zero of=/tmp/piece.$pieces bs=1M count=16 2>/dev/null || break
  pieces=$((pieces + 1))
done
check "when programs have taken $pieces times 16 MiB, the claim ends" test "$(claims lost_pressure)" = 8192
check "not because of its time" test "$(claims lost_time)" = "$lost"
rm /tmp/piece.*
kill -KILL $held
wait $held
check "no program was killed for want of memory" nobody_was_killed

turns=0
while [ $turns -lt 30 ]; do
  begin hold 2048
  kill -KILL $held
  wait $held
  turns=$((turns + 1))
done
after=$(unmarked)
check "after 30 owners that were killed no frame is lost ($before without a mark, then $after)" \
  test "$after" -lt $((before + 1500))
check "the module can go" rmmod rampart
check "what it retired stays" poisoned "$frame"
check "no oops, no warning" log_is_clean
report "boot-again init_on_free=1"
