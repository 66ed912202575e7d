# `rampart banks consolidate` takes memory offline up to its target. `rampart banks restore` brings each block back in
# its former zone, also after a kill and after Ctrl-C in the midst.
# memory: 2G

as_before() {
  zones >/tmp/now
  diff /tmp/before /tmp/now
}

all_come_back() {
  rampart banks restore >/tmp/restored 2>&1
  code=$?
  cat /tmp/restored
  check "restore succeeds after $1" test "$code" = 0
  check "each block is online in its former zone after $1" as_before
}

# One block is for movable memory only: it must come back so.
block=$(rampart banks | awk '/ yes: / { block = $1 } END { print block }')
echo offline >"$memory/memory$block/state"
echo online_movable >"$memory/memory$block/state"
zones >/tmp/before
cat /tmp/before
check "one block is for movable memory" grep -q "^$block online Movable" /tmp/before
all=$(wc -l </tmp/before)

rampart banks consolidate --target 40% >/tmp/plan
code=$?
cat /tmp/plan
check "a dry run says that 40 % can go" test "$code" = 0
check "it says that nothing was changed" grep -q '^dry run ' /tmp/plan
check "and changes nothing" as_before

# 300 MiB of a program's data move out of the way, and stay what they were.
dd if=/dev/urandom of=/tmp/data bs=1M count=300 2>/dev/null
sum=$(md5sum </tmp/data)
rampart banks consolidate --target 40% --apply >/tmp/report 2>&1
code=$?
cat /tmp/report
gone=$(offline)
check "it reaches its target" test "$code" = 0
check "40 % of the blocks are offline ($gone of $all)" test $((gone * 100)) -ge $((all * 40))
check "and not two blocks more" test $(((gone - 2) * 100)) -lt $((all * 40))
check "the data are what they were" test "$(md5sum </tmp/data)" = "$sum"
check "rampart banks shows them" test "$(rampart banks | grep -c ' no: offline already')" = "$gone"
all_come_back "a consolidation"
check "restore has nothing to do a second time" sh -c "rampart banks restore | grep -q '^nothing to bring back'"

# begin SIGNAL: a consolidation that gets the signal as soon as two blocks are offline; its exit code is in $code.
begin() {
  rampart banks consolidate --target 70% --apply >/tmp/report 2>&1 &
  consolidation=$!
  until [ "$(offline)" -ge 2 ]; do kill -0 $consolidation || break; done
  rampart banks restore >/tmp/second 2>&1
  second=$?
  kill -"$1" $consolidation
  wait $consolidation
  code=$?
  cat /tmp/report
}

begin KILL
check "a kill ends it before its target" test "$code" = 137
check "a second command is refused meanwhile" test "$second" = 2
check "in one line" test "$(wc -l </tmp/second)" = 1
check "some blocks are offline" test "$(offline)" -ge 2
all_come_back "a kill"

begin INT
check "Ctrl-C ends it before its target" test "$code" = 2
check "and it says so" grep -q '^ended .*stopped' /tmp/report
check "some blocks are offline, as it says" test "$(grep -c ' offline$' /tmp/report)" = "$(offline)"
all_come_back "Ctrl-C"

# A target that nobody can reach ends at the reserve, and harms nobody.
rampart banks consolidate --target 99% --reserve 10% --apply >/tmp/report 2>&1
code=$?
cat /tmp/report
check "a target out of reach is not reached" test "$code" = 2
check "a tenth of the memory is free" test $(($(meminfo MemFree) * 10)) -ge $(((all - $(offline)) * 131072))
check "the data are what they were" test "$(md5sum </tmp/data)" = "$sum"
check "nobody was killed" sh -c "! dmesg | grep -iE 'oom-kill|out of memory|killed process'"
all_come_back "a target out of reach"

# Pages that look movable and are not: their blocks stay, each attempt ends at its deadline.
rm /tmp/data
pinned >/tmp/pinned &
pinned=$!
until grep -q pinned /tmp/pinned; do kill -0 $pinned || break; done
rampart banks consolidate --target 90% --reserve 0% --deadline 500ms --apply >/tmp/report 2>&1
code=$?
cat /tmp/report
check "pages that cannot move keep it from its target" test "$code" = 2
check "it tries each such block three times" sh -c \
  "grep ' stays online: ' /tmp/report | awk '{ tries[\$1]++ } END { for (block in tries) if (tries[block] == 3) exit 0; exit 1 }'"
check "what is pinned stays" kill -0 $pinned
kill $pinned
all_come_back "an obstacle"
