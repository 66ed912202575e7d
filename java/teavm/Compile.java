import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.Arrays;
import org.teavm.tooling.ConsoleTeaVMToolLog;
import org.teavm.tooling.TeaVMTargetType;
import org.teavm.tooling.TeaVMTool;
import org.teavm.vm.TeaVMOptimizationLevel;

/** Compiles a program: main class, folder and name of the result, then the class path. */
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
        tool.setLog(new ConsoleTeaVMToolLog(false));
        URL[] path = new URL[given.length - 3];
        for (int i = 0; i < path.length; i++) {
            path[i] = new File(given[i + 3]).toURI().toURL();
        }
        tool.setClassLoader(new URLClassLoader(path, Compile.class.getClassLoader()));
        tool.generate();
        boolean refused = false;
        for (var problem : tool.getProblemProvider().getSevereProblems()) {
            System.err.println(problem.getText() + " " + Arrays.toString(problem.getParams()) + " " + problem.getLocation());
            refused = true;
        }
        System.exit(refused ? 1 : 0);
    }
}
