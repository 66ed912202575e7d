package rampart;

import org.teavm.interop.Import;

/** Memory errors, for tests. */
public final class Losses {
    private Losses() {
    }

    /** Loses the line of 64 B that holds a byte of an object. */
    @Import(module = "rampart", name = "lose")
    public static native void lose(Object object, int at);
}
