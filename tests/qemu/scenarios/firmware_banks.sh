# Banks are those that the firmware names: two nodes of an MPST, of which one has two ranges, and a window of CXL memory
# of the emulator's own CEDT.
# memory: 1G
# acpi: MPST 00000000 0300 0000
# acpi: MPST 0300 0100 20000000 0000001000000000 0000001000000000 00000000 00000000
# acpi: MPST 0300 0200 20000000 0000002000000000 0000000800000000 00000000 00000000
# acpi: MPST 0300 0200 20000000 0000003000000000 0000000800000000 00000000 00000000
# acpi: MPST 0000 0000
# qemu: -machine cxl=on
# qemu: -device pxb-cxl,bus_nr=12,bus=pcie.0,id=a -device pxb-cxl,bus_nr=222,bus=pcie.0,id=b
# qemu: -machine cxl-fmw.0.targets.0=a,cxl-fmw.0.targets.1=b,cxl-fmw.0.size=4G,cxl-fmw.0.interleave-granularity=8k

ls /sys/firmware/acpi/tables
rampart banks >/tmp/banks
grep -A 8 '^banks ' /tmp/banks
check "the banks come from the firmware" grep -q '^banks .* 4 banks are named by the firmware' /tmp/banks
check "a node is a bank" grep -q '0x0010000000-0x001fffffff (MPST)$' /tmp/banks
check "two ranges of a node are a set" \
  test "$(grep -c '(MPST), goes with all of set 3$' /tmp/banks)" = 2
check "a window is interleaved" grep -q '(CEDT), interleaved 2 ways by 8 KiB$' /tmp/banks
check "blocks 2 and 3 lie in one bank" test "$(awk '$1 == 2 || $1 == 3 { print $5 }' /tmp/banks | sort -u | wc -l)" = 1
check "their blocks name the set" test "$(grep -c ' 3 set 3 \| 5 set 3 ' /tmp/banks)" = 2
rampart banks --json >/tmp/json
check "as JSON too" grep -q '"source": "firmware"' /tmp/json
rampart banks --bank 64MiB >/tmp/requested
check "the user's size counts more" grep -q 'banks of 64 MiB (as requested)$' /tmp/requested
check "no table is left out" sh -c "! grep -q '^tables ' /tmp/banks"
