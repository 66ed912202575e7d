package rampart;

import org.teavm.interop.Import;

/** Asks the host for a full collection. */
public final class Collecting {
    private Collecting() {
    }

    @Import(module = "rampart", name = "gc")
    public static native void collect();
}
