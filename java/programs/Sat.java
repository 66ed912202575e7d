import org.sat4j.core.VecInt;
import org.sat4j.minisat.SolverFactory;
import org.sat4j.specs.ContradictionException;
import org.sat4j.specs.ISolver;

/** Sat4j decides random formulas, and asks a long one that stays what follows from assumptions. */
public class Sat {
    static void add(Seed seed, ISolver solver, int variables, int clauses) throws ContradictionException {
        for (int clause = 0; clause < clauses; clause++) {
            int[] literals = new int[3];
            for (int i = 0; i < 3; i++) {
                literals[i] = (seed.below(variables) + 1) * (seed.below(2) == 0 ? 1 : -1);
            }
            solver.addClause(new VecInt(literals));
        }
    }

    static ISolver solver(int variables) {
        ISolver solver = SolverFactory.newLight();
        solver.setTimeoutOnConflicts(100000000);
        solver.newVar(variables);
        return solver;
    }

    public static void main(String[] arguments) throws Exception {
        Seed seed = new Seed(7);
        int many = 20000;
        ISolver stays = solver(many);
        add(seed, stays, many, many * 3 / 2);
        int rounds = Seed.rounds(arguments, 8);
        int follow = 0;
        for (int round = 0; round < rounds; round++) {
            boolean isHard = round % 8 == 0;
            int variables = isHard ? 120 : 4000;
            ISolver solver = solver(variables);
            boolean satisfiable;
            try {
                add(seed, solver, variables, isHard ? variables * 42 / 10 : variables * 2);
                satisfiable = solver.isSatisfiable();
            } catch (ContradictionException contradiction) {
                satisfiable = false;
            }
            int[] assumed = new int[40];
            for (int i = 0; i < assumed.length; i++) {
                assumed[i] = (seed.below(many) + 1) * (seed.below(2) == 0 ? 1 : -1);
            }
            follow += stays.isSatisfiable(new VecInt(assumed)) ? 1 : 0;
            System.out.println(round + " " + satisfiable + " " + follow);
        }
    }
}
