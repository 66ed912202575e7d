# The guarantee of [Rahman16, 4.1.2] on a real kernel: for 20 lifetimes in a row under load, no frame in use that can be
# moved is beyond its lifetime; the age of the oldest is printed after each.
# memory: 256M
# cpus: 2
# kernel-module: yes

. /claims.sh

lifetime=30

check "the module loads" insmod /rampart.ko
rampart watch --source kernel --lifetime ${lifetime}s --max-share 100% --max-cores 2 --max-fidelity 1 --retention 0s \
  >/tmp/watched 2>&1 &
daemon=$!
holder 60000 60 >/tmp/held 2>&1 &
holder=$!
sleep $((2 * lifetime))
for number in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  sleep $lifetime
  aged $holder $lifetime >/tmp/aged
  state=$(rampart status --json | awk '/"moved":|"missed":|"refused":/ { gsub(/[",]/, ""); printf "%s ", $0 }')
  check "lifetime $number: none is late: $(cat /tmp/aged); $(echo $state)" grep -q ' apart 0 ' /tmp/aged
done
kill -TERM $holder
wait $holder
check "the data of the load are right: $(cat /tmp/held)" test $? = 0
grep moved $folder/claims
kill -INT $daemon
wait $daemon
check "the daemon ends with nothing found" test $? = 0
check "no oops, no warning" log_is_clean
