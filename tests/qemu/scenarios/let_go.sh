# A frame that a guarded program found bad is retired when the program has ended: two lines of a locked page are changed
# from outside, which is more than its codes rebuild.
# memory: 448M

RAMPART_GUARD_LIBRARY=/bin/librampart_preload.so rampart run --engine mprotect --cap 4MiB -- keeper >/tmp/said 2>/tmp/told &
guard=$!
while [ ! -s /tmp/said ] && kill -0 "$guard" 2>/dev/null; do sleep 1; done
sleep 3
read -r process page </tmp/said
# The middle of its memory was locked long ago. 8 bytes a page; the frame is in the low 55 bits.
page=$((page + 4000))
entry=$(dd if=/proc/"$process"/pagemap bs=8 skip=$page count=1 2>/dev/null | od -An -tx8 | tr -d ' ')
frame=$((0x$entry & 0x7fffffffffffff))
check "the page is on frame $frame" test "$frame" -gt 0
if poisoned "$frame"; then report "fail the frame is bad before"; fi
for line in 0 10; do
  printf 'memory that changes by itself' | dd of=/proc/"$process"/mem bs=1 seek=$((page * 4096 + line * 64)) conv=notrunc 2>/dev/null
done
touch /tmp/go
wait "$guard"
check "the program is stopped, and its exit code is told" test $? = 86
cat /tmp/told
check "it saw nothing" test "$(wc -l </tmp/said)" = 1
check "the frame goes on the map" grep -q "frame $(printf '%#x' "$frame") is on the map of bad frames" /tmp/told
check "what became of it is said" grep -q "frame $(printf '%#x' "$frame") is retired" /tmp/told
check "the kernel holds the frame as bad" poisoned "$frame"
rampart map show
check "the map says that it is retired" sh -c "rampart map show | grep -i $(printf '%#x' "$frame") | grep -qv 'NOT retired'"
