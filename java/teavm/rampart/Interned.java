package rampart;

/** Compares strings for the pool of {@code String.intern()}. */
public final class Interned {
    private Interned() {
    }

    /** Whether a string of the pool, or null if it is gone, is the one that is looked for. */
    public static boolean isSame(String pooled, String wanted) {
        return pooled != null && pooled.equals(wanted);
    }
}
