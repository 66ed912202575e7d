import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.teavm.diagnostics.DefaultProblemTextConsumer;
import org.teavm.diagnostics.Problem;
import org.teavm.tooling.EmptyTeaVMToolLog;
import org.teavm.tooling.TeaVMTargetType;
import org.teavm.tooling.TeaVMTool;
import org.teavm.vm.TeaVMOptimizationLevel;

/** Compiles a program: main class, folder and name of the result, then the class path. Prints a line for each problem. */
public class Compile {
    public static void main(String[] given) throws Exception {
        TeaVMTool tool = new TeaVMTool();
        tool.setTargetType(TeaVMTargetType.WEBASSEMBLY_GC);
        File folder = new File(given[1]);
        tool.setMainClass(writeLauncher(given[0], new File(folder, "launcher")));
        tool.setTargetDirectory(folder);
        tool.setTargetFileName(given[2]);
        tool.setObfuscated(false);
        tool.setStrict(true);
        tool.setOptimizationLevel(TeaVMOptimizationLevel.FULL);
        tool.setWasmExceptionsUsed(true);
        tool.setLog(new EmptyTeaVMToolLog());
        URL[] path = new URL[given.length - 2];
        path[0] = new File(folder, "launcher").toURI().toURL();
        for (int i = 1; i < path.length; i++) {
            path[i] = new File(given[i + 2]).toURI().toURL();
        }
        URLClassLoader classes = new URLClassLoader(path, Compile.class.getClassLoader());
        tool.setClassLoader(classes);
        if (classes.getResource(given[0].replace('.', '/') + ".class") == null) {
            System.out.println("there is no class " + given[0]);
            System.exit(1);
        }
        tool.generate();
        boolean refused = false;
        for (Problem problem : tool.getProblemProvider().getSevereProblems()) {
            DefaultProblemTextConsumer text = new DefaultProblemTextConsumer();
            problem.render(text);
            var at = problem.getLocation() == null ? null : problem.getLocation().getMethod();
            System.out.println(text.getText() + (at == null ? "" : ", which " + at.getClassName() + "." + at.getName() + " uses"));
            refused = true;
        }
        System.exit(refused ? 1 : 0);
    }

    /**
     * Writes the class that starts a program, in the package of the main class, which others need not see: it makes the
     * errors, calls the main method, and reports what nobody catches. Returns its name.
     */
    private static String writeLauncher(String main, File folder) throws Exception {
        String program = main.replace('.', '/');
        String name = program.substring(0, program.lastIndexOf('/') + 1) + "RampartLauncher";
        ClassWriter launcher = new ClassWriter(ClassWriter.COMPUTE_MAXS);
        launcher.visit(Opcodes.V1_5, Opcodes.ACC_PUBLIC | Opcodes.ACC_SUPER, name, null, "java/lang/Object", null);
        MethodVisitor method = launcher.visitMethod(
            Opcodes.ACC_PUBLIC | Opcodes.ACC_STATIC, "main", "([Ljava/lang/String;)V", null, null);
        Label begin = new Label();
        Label end = new Label();
        Label uncaught = new Label();
        method.visitTryCatchBlock(begin, end, uncaught, "java/lang/Throwable");
        method.visitMethodInsn(Opcodes.INVOKESTATIC, "rampart/Errors", "prepare", "()V", false);
        method.visitLabel(begin);
        method.visitVarInsn(Opcodes.ALOAD, 0);
        method.visitMethodInsn(Opcodes.INVOKESTATIC, program, "main", "([Ljava/lang/String;)V", false);
        method.visitLabel(end);
        method.visitInsn(Opcodes.RETURN);
        method.visitLabel(uncaught);
        method.visitVarInsn(Opcodes.ASTORE, 1);
        method.visitVarInsn(Opcodes.ALOAD, 1);
        method.visitMethodInsn(Opcodes.INVOKESTATIC, "rampart/Errors", "report", "(Ljava/lang/Throwable;)V", false);
        method.visitVarInsn(Opcodes.ALOAD, 1);
        method.visitInsn(Opcodes.ATHROW);
        method.visitMaxs(0, 0);
        method.visitEnd();
        launcher.visitEnd();
        File file = new File(folder, name + ".class");
        Files.createDirectories(file.toPath().getParent());
        Files.write(file.toPath(), launcher.toByteArray());
        return name.replace('/', '.');
    }
}
