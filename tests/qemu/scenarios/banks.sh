# The blocks that `rampart banks` says can be emptied go offline, and those in several zones do not.
# memory: 1G

rampart banks >/tmp/before
tail -n 12 /tmp/before
can=$(awk '/ yes$/ { print $1 }' /tmp/before)
several=$(awk '/ no: several zones$/ { print $1 }' /tmp/before)
check "some blocks can be emptied" test -n "$can"
check "one lies in several zones" test -n "$several"
gone=0
for block in $can; do
  timeout 20 sh -c "echo offline >/sys/devices/system/memory/memory$block/state" 2>/dev/null && gone=$((gone + 1))
done
report "$gone of $(echo "$can" | wc -w) went offline"
check "all but one of these go offline" test $((gone + 1)) -ge "$(echo "$can" | wc -w)"
for block in $several; do
  check "block $block stays online" sh -c "! echo offline >/sys/devices/system/memory/memory$block/state 2>/dev/null"
done
rampart banks >/tmp/after
tail -n 8 /tmp/after
check "the table shows them offline" test "$(grep -c ' no: offline$' /tmp/after)" = "$gone"
check "the totals agree" grep -q "memory .* $((gone * 128)) MiB offline" /tmp/after
for block in $can; do echo online >/sys/devices/system/memory/memory"$block"/state; done
rampart banks >/tmp/again
check "they come back" sh -c "! grep -q ' no: offline$' /tmp/again"
