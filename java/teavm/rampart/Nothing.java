package rampart;

/** Does nothing. {@link Plugin} calls it where objects are used without a call, and says that it may throw. */
public final class Nothing {
    private Nothing() {
    }

    public static void mayThrow() {
    }
}
