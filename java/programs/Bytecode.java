import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.InsnNode;
import org.objectweb.asm.tree.IntInsnNode;
import org.objectweb.asm.tree.MethodNode;

/** ASM keeps the trees of classes, and makes, reads, changes and writes more, as bloat does. */
public class Bytecode {
    static byte[] made(Seed seed, int number) {
        ClassWriter writer = new ClassWriter(ClassWriter.COMPUTE_MAXS);
        writer.visit(Opcodes.V1_6, Opcodes.ACC_PUBLIC, "made/C" + number, null, "java/lang/Object", null);
        for (int field = 0; field < 5; field++) {
            writer.visitField(Opcodes.ACC_PRIVATE, seed.word() + field, "I", null, null).visitEnd();
        }
        int methods = 10 + seed.below(20);
        for (int i = 0; i < methods; i++) {
            MethodVisitor method = writer.visitMethod(Opcodes.ACC_STATIC, seed.word() + i, "(II)I", null, null);
            method.visitCode();
            method.visitVarInsn(Opcodes.ILOAD, 0);
            int steps = 20 + seed.below(60);
            for (int step = 0; step < steps; step++) {
                switch (seed.below(5)) {
                    case 0 -> method.visitIntInsn(Opcodes.BIPUSH, seed.below(100));
                    case 1 -> method.visitVarInsn(Opcodes.ILOAD, 1);
                    case 2 -> method.visitLdcInsn(100000 + seed.below(5000));
                    case 3 -> {
                        Label next = new Label();
                        method.visitVarInsn(Opcodes.ILOAD, 0);
                        method.visitJumpInsn(Opcodes.IFEQ, next);
                        method.visitIincInsn(1, 1);
                        method.visitLabel(next);
                        method.visitInsn(Opcodes.ICONST_1);
                    }
                    default -> {
                        method.visitVarInsn(Opcodes.ILOAD, 0);
                        method.visitInsn(Opcodes.ICONST_2);
                        String of = "made/C" + seed.below(50);
                        method.visitMethodInsn(Opcodes.INVOKESTATIC, of, seed.word(), "(II)I", false);
                    }
                }
                method.visitInsn(seed.below(2) == 0 ? Opcodes.IADD : Opcodes.IMUL);
            }
            method.visitInsn(Opcodes.IRETURN);
            method.visitMaxs(0, 0);
            method.visitEnd();
        }
        writer.visitEnd();
        return writer.toByteArray();
    }

    static byte[] changed(ClassNode node) {
        for (Object each : node.methods) {
            MethodNode method = (MethodNode) each;
            for (AbstractInsnNode at = method.instructions.getFirst(), next; at != null; at = next) {
                next = at.getNext();
                if (at.getOpcode() == Opcodes.BIPUSH && ((IntInsnNode) at).operand < 6) {
                    method.instructions.set(at, new InsnNode(Opcodes.ICONST_0 + ((IntInsnNode) at).operand % 6));
                } else if (at.getOpcode() == Opcodes.IMUL) {
                    method.instructions.insert(at, new InsnNode(Opcodes.NOP));
                }
            }
        }
        ClassWriter writer = new ClassWriter(0);
        node.accept(writer);
        return writer.toByteArray();
    }

    static ClassNode read(byte[] bytes) {
        ClassNode node = new ClassNode();
        new ClassReader(bytes).accept(node, 0);
        return node;
    }

    public static void main(String[] arguments) {
        Seed seed = new Seed(19);
        ClassNode[] table = new ClassNode[80];
        int rounds = Seed.rounds(arguments, 200);
        long hash = 0;
        for (int round = 0; round < rounds; round++) {
            byte[] bytes = made(seed, round);
            table[seed.below(table.length)] = read(bytes);
            byte[] changed = changed(read(bytes));
            hash = Seed.mix(hash, changed);
            hash = Seed.mix(hash, read(changed).methods.size());
        }
        System.out.println(Long.toHexString(hash));
    }
}
