// What a C library, an operating system's loader or a boot loader would bring along, for x86-64 and System V.
//
// The program begins at `_start` if Linux starts it, and at `boot` if it is the only software of a machine. Both call
// `freestanding`, which returns the status to end with.

.text
.globl _start
_start:
    xor ebp, ebp
    and rsp, -16
    call freestanding
    mov edi, eax

// stop(status) -> !
.globl stop
stop:
    cmp byte ptr [rip + is_booted], 0
    jne 1f
    mov eax, 231 // exit_group
    syscall
    ud2
// QEMU's device isa-debug-exit ends with twice what is written there, plus 1. 16 tells success from an error of QEMU.
1:  lea eax, [rdi + 16]
    out 0xf4, eax
2:  hlt
    jmp 2b

// A boot loader of the kind of Xen's PVH enters here in 32-bit protected mode, without paging and interrupts.
.code32
boot:
    mov esp, offset stack_end
    mov byte ptr [is_booted], 1
    // The first GiB is mapped to itself, in pages of 2 MiB: present, writable, large.
    mov eax, offset table_3 + 3
    mov [table_4], eax
    mov eax, offset table_2 + 3
    mov [table_3], eax
    xor ecx, ecx
3:  mov eax, ecx
    shl eax, 21
    or eax, 0x83
    mov [table_2 + ecx * 8], eax
    inc ecx
    cmp ecx, 512
    jne 3b
    mov eax, offset table_4
    mov cr3, eax
    mov eax, cr4
    or eax, 0x620 // PAE; OSFXSR and OSXMMEXCPT, as compiled code uses SSE
    mov cr4, eax
    mov ecx, 0xc0000080 // EFER
    rdmsr
    or eax, 0x100 // LME
    wrmsr
    mov eax, cr0
    and eax, 0xfffffffb // no EM
    or eax, 0x80000002 // PG, MP
    mov cr0, eax
    lgdt [table_of_segments]
    mov eax, offset long_mode
    push 8
    push eax
    retf
.code64
long_mode:
    mov eax, 16
    mov ss, eax
    mov ds, eax
    mov es, eax
    call freestanding
    mov edi, eax
    jmp stop

.section .rodata
.balign 8
segments:
    .quad 0
    .quad 0x00209a0000000000 // code, 64 bits
    .quad 0x0000920000000000 // data
table_of_segments:
    .word 23
    .long segments

// XEN_ELFNOTE_PHYS32_ENTRY, by which QEMU finds `boot`.
.section .note.Xen, "a", @note
.balign 4
    .long 4, 8, 18
    .asciz "Xen"
    .quad boot

.bss
.balign 4096
table_4: .skip 4096
table_3: .skip 4096
table_2: .skip 4096
    .skip 1 << 18
stack_end:
is_booted: .skip 1

// libcore names it, as it was compiled to unwind. Nothing here unwinds.
.text
.globl rust_eh_personality
rust_eh_personality:
    ud2

// The compiler calls these four, and `bcmp`, by itself.

.globl memcpy
memcpy:
    mov rax, rdi
    mov rcx, rdx
    rep movsb
    ret

.globl memmove
memmove:
    mov rax, rdi
    mov rcx, rdx
    cmp rdi, rsi
    ja 4f
    rep movsb
    ret
4:  lea rsi, [rsi + rcx - 1]
    lea rdi, [rdi + rcx - 1]
    std
    rep movsb
    cld
    ret

.globl memset
memset:
    mov r8, rdi
    mov eax, esi
    mov rcx, rdx
    rep stosb
    mov rax, r8
    ret

.globl memcmp
.globl bcmp
memcmp:
bcmp:
    xor eax, eax
    xor ecx, ecx
5:  cmp rcx, rdx
    je 6f
    movzx eax, byte ptr [rdi + rcx]
    movzx r8d, byte ptr [rsi + rcx]
    inc rcx
    sub eax, r8d
    je 5b
6:  ret
