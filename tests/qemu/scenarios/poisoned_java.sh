# Another program makes frames below a Java program bad, by the kernel's own interface: free and dead pages, which
# nobody may notice, and pages of objects in use, each of which must name itself when it is read, while all others are
# as they were and the program prints what it prints on HotSpot. HotSpot, wasmtime with its own collector, and our host
# on memory that it does not watch end. Pages that the kernel is asked to move or to swap out lose nothing.
# memory: 1536M
# kernel: 6.12
# java: Poisoned
# modules: hwpoison-inject lzo-rle zram

each=25
runs=4

# Prints the orders of the program, of these kinds.
orders() {
  grep -E "^poison ($1) [0-9]+\$" /tmp/out | cut -d ' ' -f 2-
}

# poison KIND...: makes frames bad that the program has named; $bad has how many the kernel marks as such.
poison() {
  orders "$1" >/tmp/orders
  cut -d ' ' -f 2 /tmp/orders | while read -r frame; do
    # The kernel says that it is busy, as the page is pinned; it has marked the frame and told the program nevertheless.
    echo "$frame" >/sys/kernel/debug/hwpoison/corrupt-pfn
  done 2>/dev/null
  bad=0
  for frame in $(cut -d ' ' -f 2 /tmp/orders); do
    ! poisoned "$frame" || bad=$((bad + 1))
  done
}

# begin PROGRAM...: starts a program, and waits until it has built its objects.
begin() {
  rm -f /tmp/in
  mkfifo /tmp/in
  : >/tmp/out
  "$@" </tmp/in >/tmp/out 2>/tmp/said &
  program=$!
  exec 9>/tmp/in
  until grep -q '^ready' /tmp/out; do
    kill -0 $program 2>/dev/null || break
    sleep 1
  done
}

ours() {
  : >/tmp/no-frames
  begin /java/rampart-java --throw-losses --heap 32768 --cache /tmp/code --frames /tmp/no-frames \
    --report /tmp/report.json "$@"
}

# Lets the program go on; $code is its exit code.
finish() {
  echo >&9
  exec 9>&-
  wait $program
  code=$?
  grep -vE '^(poison|page) ' /tmp/out
  tail -n 3 /tmp/said
}

prints_as_hotspot() {
  [ "$(tail -n 1 /tmp/out)" = "$(tail -n 1 /java/expected)" ]
}

# lost KIND: sets $lost, $expected, $named, $innocent and $wrong as the program has counted them.
lost() {
  # shellcheck disable=SC2046 # several words
  set -- $(sed -n "s/^lost $1 //p" /tmp/out)
  lost=${1:--1} expected=$3 named=$5 innocent=$7 wrong=$9
}

# resident FIRST LAST: prints the frames of some pages between two addresses, numbers in hexadecimal, that have one.
resident() {
  dd if=/proc/$program/pagemap bs=8 skip=$((0x$1 / 4096)) count=$(((0x$2 - 0x$1) / 4096)) 2>/dev/null |
    od -An -v -tx8 | tr -s ' ' '\n' | awk '/^[89a-f]/ { print "0x" substr($0, 4) }' |
    awk -v each=$each '{ frame[NR] = $1 } END { for (i = 1; i <= each; i++) print frame[int(i * NR / (each + 1))] }' |
    while read -r frame; do echo "poison some $((frame & 0x7fffffffffffff))"; done
}

# Where the heap of the program begins, a page: its mapping is the only one of so many KiB.
heap() {
  awk '$2 == "rw-p" { sub("-", " ", $1); print $1 }' /proc/$program/maps | while read -r first last; do
    [ $((0x$last - 0x$first)) != $(($1 * 1024)) ] || echo $((0x$first / 4096))
  done
}

# Makes orders of the pages that the program has named in a heap of so many KiB.
order_pages() {
  first=$(heap "$1")
  sed -n 's/^page //p' /tmp/out >/tmp/pages
  while read -r of offset; do
    entry=$(dd if=/proc/$program/pagemap bs=8 skip=$((first + offset / 4096)) count=1 2>/dev/null | od -An -tx8)
    # Without the flags.
    echo "poison $of $((0x${entry# ???} & 0x7fffffffffffff))"
  done </tmp/pages >>/tmp/out
}

load_modules
mount -t debugfs none /sys/kernel/debug
export LD_LIBRARY_PATH=/java/hotspot/lib

free=0 dead=0 silent=0 worked=0
for run in $(seq $runs); do
  ours /java/program.wasm $each work
  poison free
  free=$((free + bad))
  poison dead
  dead=$((dead + bad))
  finish
  lost cells
  of_cells="$code $lost $wrong"
  lost arrays
  [ "$of_cells $lost $wrong" != "0 0 0 0 0" ] || ! prints_as_hotspot || silent=$((silent + 1))
  ! grep -q '^worked' /tmp/out || worked=$((worked + 1))
done
check "$free free and $dead dead pages are poisoned while a Java program reads, writes and makes objects ($worked runs)" \
  test $free -ge $((each * runs)) -a $dead -ge $((each * runs)) -a $worked = $runs
check "and it notices none of them, and prints what it prints on HotSpot ($silent of $runs runs)" test $silent = $runs

live=0 large=0 gone=0 whole=0
for run in $(seq $runs); do
  ours /java/program.wasm $each
  poison live
  live=$((live + bad))
  poison large
  large=$((large + bad))
  finish
  for kind in cells arrays; do
    lost $kind
    gone=$((gone + lost))
    check "run $run: all $expected $kind on poisoned pages are lost, each is named, and no others ($lost, $named)" \
      test "$lost $named $innocent $wrong" = "$expected $expected 0 0"
  done
  [ $code != 0 ] || ! prints_as_hotspot || whole=$((whole + 1))
done
check "$live pages of small objects in use and $large of large ones are poisoned, and $gone objects lost" \
  test $live -ge $((each * runs)) -a $large -ge $((each * runs))
check "the program goes on and prints what it prints on HotSpot ($whole of $runs runs)" test $whole = $runs

ours /java/program.wasm $each read
poison live
exec 9>&-
wait $program
code=$?
cat /tmp/said
check "who reads a lost page before anything can be done ends with a line and a code of its own ($code)" \
  sh -c "[ $code = 86 ] && grep -q '^the hardware has lost the memory at 0x' /tmp/said && ! grep -q 'not there' /tmp/out"

# Programs take memory until the kernel has swapped something out.
begin_swapping() {
  echo 512M >/sys/block/zram0/disksize
  mkswap /dev/zram0 >/dev/null
  swapon /dev/zram0
  mount -o remount,size=95% /tmp
}

press() {
  pieces=0
  while [ $(($(meminfo SwapTotal) - $(meminfo SwapFree))) -lt 65536 ] && [ $pieces -lt 30 ]; do
    dd if=/dev/zero of=/tmp/piece.$pieces bs=1M count=64 2>/dev/null
    pieces=$((pieces + 1))
  done
  swapped=$(($(meminfo SwapTotal) - $(meminfo SwapFree)))
}

# The page map of the window in which all pages of the heap are: the longest mapping of its file.
window() {
  # shellcheck disable=SC2046 # two words
  set -- $(grep 'rampart-heap' /proc/$program/maps | sed 's/[- ]/ /g' | while read -r first last _; do
    echo $((0x$last - 0x$first)) "$first"
  done | sort -n | tail -n 1)
  # The first 32 MiB, of which each has a frame.
  dd if=/proc/$program/pagemap bs=8 skip=$((0x$2 / 4096)) count=8192 2>/dev/null | od -An -v -tx8
}

# Asks the kernel to move what is in all frames that the program has named, and to use them no more.
soft_offline() {
  offline=0
  for frame in $(orders 'free|dead|live|large' | cut -d ' ' -f 2); do
    ! echo $((frame * 4096)) >/sys/devices/system/memory/soft_offline_page || offline=$((offline + 1))
  done 2>/dev/null
}

nothing_is_lost() {
  lost cells
  of_cells="$code $lost $wrong"
  lost arrays
  [ "$of_cells $lost $wrong" = "0 0 0 0 0" ] && prints_as_hotspot
}

ours /java/program.wasm $each
window >/tmp/window
begin_swapping
press
soft_offline
window | cmp - /tmp/window
same=$?
finish
rm /tmp/piece.*
check "pinned pages keep their frames while $swapped KiB are swapped out and the kernel is asked to move them ($offline)" \
  test $same = 0 -a "$swapped" -ge 65536
check "and nothing is lost" nothing_is_lost

# Without io_uring, pages are only locked (Linux 6.6 can refuse it).
if echo 2 >/proc/sys/kernel/io_uring_disabled; then
  ours /java/program.wasm $each
  press
  rm /tmp/piece.*
  soft_offline
  finish
  changed=$(sed -n 's/.*"pages_changed": \([0-9]*\).*/\1/p' /tmp/report.json)
  check "pages that are only locked move when the kernel is asked ($offline, $changed noticed)" \
    sh -c "grep -q '\"are_pinned\": false' /tmp/report.json && [ $offline -ge $((3 * each)) ] && [ $changed -ge $offline ]"
  check "and nothing is lost either" nothing_is_lost
  ours /java/program.wasm $each
  poison live
  finish
  lost cells
  check "$bad poisoned pages that are only locked: all objects there are lost, and no others ($lost)" \
    test "$code $lost $named $innocent $wrong" = "0 $expected $expected 0 0"
  echo 0 >/proc/sys/kernel/io_uring_disabled
else
  report "this kernel cannot refuse io_uring: pages that are only locked are left out"
fi
swapoff /dev/zram0

# What saves a program is that its host watches frames: the same heap without them does not.
begin /java/rampart-java --throw-losses --heap 32768 --cache /tmp/code /java/program.wasm $each
order_pages $((4 << 20))
poison 'live|large'
finish
check "$bad pages are poisoned, and our host without --frames ends by SIGBUS ($code)" \
  test $bad = $((2 * each)) -a $code = $((128 + 7))

# wasmtime with its own collector, and one page for each program.
theirs() {
  begin /java/rampart-java-copying --heap 32768 --cache /tmp/code-copying /java/program.wasm 1
}

if [ -x /java/rampart-java-copying ]; then
  theirs
  finish
  check "on wasmtime's own collector, the program prints what it prints on HotSpot as long as no page is bad" \
    nothing_is_lost
  for kind in live large; do
    theirs
    order_pages 32768
    poison $kind
    # It goes on until it uses the page.
    waits=no
    ! grep -q '^State:.[RS]' /proc/$program/status || waits=yes
    finish
    check "$bad page ($kind) is poisoned, and wasmtime with its own collector ends by SIGBUS ($code)" \
      test "$bad $waits $code" = "1 yes $((128 + 7))"
  done
else
  report "skip copying-host: java/build copying makes wasmtime with its own collector"
fi

begin /java/hotspot/bin/java -Xms32m -Xmx32m -XX:+UseSerialGC -XX:-CreateCoredumpOnCrash -cp /java/classes Poisoned $each
# shellcheck disable=SC2046 # two words
resident e0000000 100000000 >>/tmp/out
poison some
finish
check "$bad pages are poisoned, and HotSpot ends by SIGBUS ($code)" \
  sh -c "[ $bad -ge $each ] && [ $code != 0 ] && grep -q 'SIGBUS (0x7)' /tmp/out"
