# Pages of programs and files in blocks of 2 MiB that also hold pages of the kernel: the module takes them one by one,
# their content moves and stays what it was, and no frame is lost.
# memory: 256M
# cpus: 2
# kernel-module: yes

. /claims.sh

# Frames without any mark: in use by the kernel, on a list of a CPU, or lost.
unmarked() {
  echo 3 >/proc/sys/vm/drop_caches
  without_mark
}

# Frames to which content was moved so far.
moved() {
  awk '/^moved/ { n += $2 } END { print n }' $folder/claims
}

# take HOW: such pages are taken one by one, round by round, at least nine in ten of them in the best round.
take() {
  best=0
  for round in $(seq 5); do
    said=$(window beside) || break
    set -- "$1" $said
    share=$(($5 * 1000 / ($3 + 1)))
    echo "$said"
    [ $share -le $best ] || best=$share
  done
  check "pages beside the kernel's are taken one by one, $1 ($said; at best $best per mille)" test $best -ge 900
}

# Programs begin and end, each with its own pages and with some of the shell's, until /tmp/stop is there. Not without a
# pause: the emulator is slow where memory changes that had code.
come_and_go() {
  while [ ! -e /tmp/stop ]; do
    (: | :)
    touches small 1 || echo wrong >>/tmp/wrong
    usleep 300000
  done
}

dmesg -c >/dev/null
check "the module loads" insmod /rampart.ko
before=$(unmarked)
available=$(meminfo MemAvailable)
come_and_go &
before_moves=$(moved)

# Memory is used up by a program, and by a file; then the kernel has to take some of it for its own.
mount -o remount,size=100% /tmp
mkdir /tmp/files
dd if=/dev/urandom of=/tmp/file bs=1M count=24 2>/dev/null
sum=$(md5sum </tmp/file)
verifier $(($(meminfo MemFree) / 4 / 2)) 30 1 >/tmp/verified 2>&1 &
verifier=$!
until grep -q filled /tmp/verified; do kill -0 $verifier || break; done
(cd /tmp/files && seq 8000 | xargs touch)
take "while nobody uses them"
touch /tmp/go
take "while a program uses them"
wait $verifier
touch /tmp/stop
wait
check "its data is as it was" grep -qx right /tmp/verified
check "the file is as it was" test "$(md5sum </tmp/file)" = "$sum"
moves=$(($(moved) - before_moves))
check "what was moved is counted ($moves)" test $moves -gt 1000
grep moved $folder/claims
check "what other programs got was zero" test ! -e /tmp/wrong
check "nothing is held" test "$(claims held) $(window held)" = "0 0"
rm -r /tmp/files /tmp/file
after=$(unmarked)
check "no frame is lost ($before without a mark, then $after)" test "$after" -lt $((before + 1500))
less=$(((available - $(meminfo MemAvailable)) / 1024))
check "as much memory is available as before (less by $less MiB)" test $less -lt 12
check "the module can go" rmmod rampart
check "memory is there again" touches small $(($(meminfo MemAvailable) / 1024 - 48))
check "no oops, no warning" log_is_clean
