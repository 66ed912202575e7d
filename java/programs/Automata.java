import dk.brics.automaton.Automaton;
import dk.brics.automaton.RegExp;
import dk.brics.automaton.RunAutomaton;

/** brics automaton keeps automata of patterns, and makes, joins, minimizes and runs more. */
public class Automata {
    static String pattern(Seed seed) {
        StringBuilder pattern = new StringBuilder();
        for (int i = 0; i < 3; i++) {
            switch (seed.below(4)) {
                case 0 -> pattern.append('(').append(seed.word()).append('|').append(seed.word()).append(")*");
                case 1 -> pattern.append("[a-m]{1,").append(2 + seed.below(4)).append('}').append(seed.word());
                case 2 -> pattern.append(seed.word()).append('?').append("[aeiou]+");
                default -> pattern.append(seed.word()).append("(.{2})?");
            }
        }
        return pattern.toString();
    }

    public static void main(String[] arguments) {
        Seed seed = new Seed(13);
        Automaton[] table = new Automaton[300];
        RunAutomaton[] running = new RunAutomaton[40];
        int rounds = Seed.rounds(arguments, 40);
        long hash = 0;
        for (int round = 0; round < rounds + table.length; round++) {
            Automaton made = new RegExp(pattern(seed)).toAutomaton(true);
            table[round % table.length] = made;
            hash = Seed.mix(hash, made.getNumberOfStates());
            if (round >= table.length) {
                Automaton joined = made.union(table[seed.below(table.length)]);
                joined.minimize();
                Automaton common = made.minus(table[seed.below(table.length)]).intersection(joined);
                common.minimize();
                hash = Seed.mix(hash, joined.getNumberOfStates() * 1000 + common.getNumberOfStates());
                RunAutomaton run = new RunAutomaton(joined);
                running[round % running.length] = run;
                String text = seed.words(20);
                for (int i = 0; i < text.length(); i++) {
                    hash = Seed.mix(hash, run.run(text, i));
                }
            }
        }
        System.out.println(Long.toHexString(hash));
    }
}
