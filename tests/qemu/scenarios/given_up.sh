# A frame below a locked page of a guarded program is given up, as the kernel does when the hardware reports that it
# cannot be corrected: the guard stops the program before it sees the page, and the frame is on the map.
# memory: 448M

RAMPART_GUARD_LIBRARY=/bin/librampart_preload.so rampart run --engine mprotect --cap 4MiB -- keeper >/tmp/said 2>/tmp/told &
guard=$!
while [ ! -s /tmp/said ] && kill -0 "$guard" 2>/dev/null; do sleep 1; done
sleep 3
cat /tmp/told
read -r process page </tmp/said
# The middle of its memory was locked long ago. 8 bytes a page; the frame is in the low 55 bits (pagemap.rst).
entry=$(dd if=/proc/"$process"/pagemap bs=8 skip=$((page + 4000)) count=1 2>/dev/null | od -An -tx8 | tr -d ' ')
frame=$((0x$entry & 0x7fffffffffffff))
check "the page is on frame $frame" test "$frame" -gt 0
echo $((frame * 4096)) >/sys/devices/system/memory/hard_offline_page
touch /tmp/go
wait "$guard"
check "the program is stopped" test $? = 86
cat /tmp/told
check "it saw nothing" test "$(wc -l </tmp/said)" = 1
check "what happened is told" grep -q 'memory changed beyond correction: page ' /tmp/told
check "with the frame, which is on the map" grep -q "frame $(printf '%#x' "$frame") is on the map" /tmp/told
rampart map show
check "the map has it" sh -c "rampart map show | grep -qi $(printf '%#x' "$frame")"
check "and who saw it" sh -c "rampart map show | grep -q 'a page of a guarded program was beyond correction'"
