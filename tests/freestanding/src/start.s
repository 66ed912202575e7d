// What a C library and an operating system's loader would bring along, for x86-64 and System V.
//
// Linux starts a program at `_start`, with a stack. `freestanding` returns the exit status.

.globl _start
_start:
    xor ebp, ebp
    and rsp, -16
    call freestanding
    mov edi, eax

// stop(status) -> !
.globl stop
stop:
    mov eax, 231 // exit_group
    syscall
    ud2

// libcore names it, as it was compiled to unwind. Nothing here unwinds.
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
    ja 2f
    rep movsb
    ret
2:  lea rsi, [rsi + rcx - 1]
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
3:  cmp rcx, rdx
    je 4f
    movzx eax, byte ptr [rdi + rcx]
    movzx r8d, byte ptr [rsi + rcx]
    inc rcx
    sub eax, r8d
    je 3b
4:  ret
