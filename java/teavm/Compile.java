import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
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
        tool.setMainClass(given[0]);
        tool.setTargetDirectory(new File(given[1]));
        tool.setTargetFileName(given[2]);
        tool.setObfuscated(false);
        tool.setStrict(false);
        tool.setOptimizationLevel(TeaVMOptimizationLevel.FULL);
        tool.setWasmExceptionsUsed(true);
        tool.setLog(new EmptyTeaVMToolLog());
        URL[] path = new URL[given.length - 3];
        for (int i = 0; i < path.length; i++) {
            path[i] = new File(given[i + 3]).toURI().toURL();
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
}
