/** Random numbers that are the same on every machine, and a hash of what was computed with them. */
final class Seed {
    private static final String[] SYLLABLES = {
        "ka", "lo", "mi", "ren", "ta", "vo", "su", "pel", "dar", "nim", "os", "qui", "bra", "che", "fin", "gu",
    };
    private long state;

    Seed(long seed) {
        state = seed;
    }

    int below(int limit) {
        state = state * 6364136223846793005L + 1442695040888963407L;
        return (int) ((state >>> 33) % limit);
    }

    /** A number from 0 to 1 with 20 bits. */
    double real() {
        return below(1 << 20) / (double) (1 << 20);
    }

    /** A word: short ones come often. */
    String word() {
        StringBuilder word = new StringBuilder();
        int syllables = 1 + Math.min(below(4), below(4));
        for (int i = 0; i < syllables; i++) {
            word.append(SYLLABLES[below(SYLLABLES.length)]);
        }
        return word.toString();
    }

    String words(int count) {
        StringBuilder words = new StringBuilder(word());
        for (int i = 1; i < count; i++) {
            words.append(' ').append(word());
        }
        return words.toString();
    }

    static long mix(long hash, long value) {
        return (hash ^ value) * 0x100000001b3L;
    }

    static long mix(long hash, String text) {
        for (int i = 0; i < text.length(); i++) {
            hash = mix(hash, text.charAt(i));
        }
        return hash;
    }

    static long mix(long hash, byte[] bytes) {
        for (byte each : bytes) {
            hash = mix(hash, each);
        }
        return hash;
    }

    /** The rounds that the command line asks for. */
    static int rounds(String[] arguments, int otherwise) {
        return arguments.length > 0 ? Integer.parseInt(arguments[0]) : otherwise;
    }
}
