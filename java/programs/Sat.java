import org.sat4j.core.VecInt;
import org.sat4j.minisat.SolverFactory;
import org.sat4j.specs.ContradictionException;
import org.sat4j.specs.ISolver;

/** Sat4j decides random formulas. Its heap has 3 MiB. */
public class Sat {
    static int seed = 7;

    static int random(int below) {
        seed = seed * 1103515245 + 12345;
        return (seed >>> 8 & 0x7fffff) % below;
    }

    public static void main(String[] arguments) throws Exception {
        for (int round = 0; round < 8; round++) {
            ISolver solver = SolverFactory.newLight();
            solver.setTimeoutOnConflicts(100000000);
            int variables = 150;
            solver.newVar(variables);
            boolean satisfiable;
            try {
                for (int clause = 0; clause < variables * 42 / 10; clause++) {
                    int[] literals = new int[3];
                    for (int i = 0; i < 3; i++) {
                        literals[i] = (random(variables) + 1) * (random(2) == 0 ? 1 : -1);
                    }
                    solver.addClause(new VecInt(literals));
                }
                satisfiable = solver.isSatisfiable();
            } catch (ContradictionException contradiction) {
                satisfiable = false;
            }
            System.out.println(round + " " + satisfiable);
        }
    }
}
