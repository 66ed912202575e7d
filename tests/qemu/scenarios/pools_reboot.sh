# A reboot while `rampart banks pools` has blocks offline and in the user pool: the next boot has every block online in
# its former zone, and `rampart banks restore` finds nothing to do, even with the record of the boot before.
# memory: 1G

zones >/tmp/zones
if [ "$boot" = 1 ]; then
  mkdir -p /before
  cp /tmp/zones /before/zones
  rampart banks pools --apply --dwell 60s >/tmp/report 2>&1 &
  pools=$!
  until grep -q '^pools ' /tmp/report; do kill -0 $pools || break; done
  dd if=/dev/zero of=/tmp/data bs=1M count=350 2>/dev/null
  kill -KILL $pools
  wait $pools
  zones
  check "blocks are offline" sh -c "grep -q offline $memory/memory[0-9]*/state"
  check "and in the user pool" sh -c "grep -q '^Movable' $memory/memory[0-9]*/valid_zones"
  cp /run/rampart-banks/offline-blocks.json /before/
  check "they are on record" grep -q Normal\\\|DMA32 /before/offline-blocks.json
  carry /before
  report "boot-again"
else
  check "after a reboot each block is online in its former zone" diff /before/zones /tmp/zones
  rampart banks restore >/tmp/report 2>&1
  code=$?
  cat /tmp/report
  check "there is nothing to restore" sh -c "[ $code = 0 ] && grep -q '^nothing to bring back' /tmp/report"
  mkdir -p /run/rampart-banks
  cp /before/offline-blocks.json /run/rampart-banks/
  rampart banks restore >/tmp/report 2>&1
  code=$?
  cat /tmp/report
  check "nor with the record of the boot before" sh -c "[ $code = 0 ] && grep -q '^nothing to bring back' /tmp/report"
  check "which is empty then" sh -c "! grep -q number /run/rampart-banks/offline-blocks.json"
  zones >/tmp/after
  check "each block is where it was" diff /before/zones /tmp/after
fi
